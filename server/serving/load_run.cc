#include "server/serving/load_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "device/channel/text.h"

namespace belfry::serving {
namespace {

constexpr uint64_t kMostConfigBytes = 1 << 20;

}  // namespace

absl::Status LoadRun::Run() {
  begun_ = rooms_.clock->Now();
  origin_ = version_.origin();
  version_.BeginHolding(loader_.next_executable_.fetch_add(1, std::memory_order_relaxed));
  using Step = absl::Status (LoadRun::*)();
  for (const Step step : {&LoadRun::ReadFiles, &LoadRun::PlanSeats, &LoadRun::Compile,
                          &LoadRun::PrepareQueue, &LoadRun::LoadOnCards, &LoadRun::WarmCards,
                          &LoadRun::BecomeReady}) {
    if (stopped()) return absl::CancelledError("told to stop");
    if (auto status = (this->*step)(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status LoadRun::Advance(VersionState from, VersionState to, std::string reason) {
  if (version_.Step(from, to, std::move(reason), attempt_)) return absl::OkStatus();
  return absl::AbortedError("the version was ended while it was being loaded");
}

void LoadRun::Lacks(const std::string& where, const absl::Status& status) {
  lacks_.push_back(absl::StrCat(where, ": ", status.message()));
}

absl::Status LoadRun::NoneLeft() const {
  if (!quarantined_.ok()) return quarantined_;
  return absl::FailedPreconditionError(absl::StrJoin(lacks_, "; "));
}

absl::Status LoadRun::ReadFiles() {
  if (!origin_.builtin.empty()) return absl::OkStatus();
  auto sha256 = rooms_.files->Sha256File(origin_.files.model_path);
  if (!sha256.ok()) return sha256.status();
  std::string known;
  version_.Edit([&](VersionStatus& status) {
    known = status.sha256;
    if (known.empty()) status.sha256 = *sha256;
  });
  if (!known.empty() && known != *sha256) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the file is another one than before (sha256 ", *sha256, ", was ", known,
        "); a version never changes: give the new file a new number"));
  }
  if (origin_.files.config_path.empty()) return absl::OkStatus();
  auto text = rooms_.files->ReadFile(origin_.files.config_path, kMostConfigBytes);
  if (!text.ok()) return text.status();
  version_.Edit([&](VersionStatus& status) { status.config_yaml = *text; });
  auto config = ParseModelConfig(*text);
  if (!config.ok()) return config.status();
  config_ = *std::move(config);
  return absl::OkStatus();
}

absl::Status LoadRun::PlanSeats() {
  if (origin_.builtin.empty()) {
    auto placements = Place(config_, rooms_.pool->cards());
    if (!placements.ok()) return placements.status();
    placements_ = *std::move(placements);
    return absl::OkStatus();
  }
  // A built-in model needs no compiler: every card has it.
  for (cards::Card* card : rooms_.pool->cards()) seats_.push_back({card, ""});
  if (seats_.empty()) return absl::FailedPreconditionError("there is no card");
  return absl::OkStatus();
}

absl::Status LoadRun::PrepareQueue() {
  auto queue = PlanQueue(config_, *signature_, report_json_);
  if (!queue.ok()) return queue.status();
  queue_ = *std::move(queue);
  queue_.model = version_.model();
  queue_.version = std::to_string(version_.number());
  queue_.executable = version_.executable();
  queue_.max_answer_bytes = loader_.options_.max_answer_bytes;
  queue_.metrics = rooms_.metrics->ForModel(queue_.model, queue_.version);
  return absl::OkStatus();
}

absl::Status LoadRun::BecomeReady() {
  const auto queue = std::make_shared<scheduling::ModelQueue>(std::move(queue_));
  version_.HoldQueue(queue);
  // Before the first request can come, so that it finds cards.
  for (cards::Card* card : version_.cards()) rooms_.dispatcher->Attach(queue, card);
  // A card that lost the executable since then has been taken out by its event,
  // perhaps before it was attached here.
  const auto still = version_.cards();
  for (const Seat& seat : seats_) {
    if (std::find(still.begin(), still.end(), seat.card) == still.end()) {
      rooms_.dispatcher->Detach(queue, seat.card);
    }
  }
  if (still.empty()) {
    Lacks("cards", absl::UnavailableError("all lost it before it was READY"));
    return NoneLeft();
  }
  const MonoNs spent = rooms_.clock->Now() - begun_ - compile_ns_;
  version_.Edit([&](VersionStatus& status) {
    status.load_seconds = static_cast<double>(spent) * 1e-9;
  });
  return Advance(VersionState::kWarming, VersionState::kReady, absl::StrJoin(lacks_, "; "));
}

}  // namespace belfry::serving
