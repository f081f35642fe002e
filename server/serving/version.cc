#include "server/serving/version.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "server/serving/names.h"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

void ShowOrigin(const Origin& origin, VersionStatus* status) {
  status->path = origin.files.model_path;
}

void LogStep(const std::string& label, VersionState from, VersionState to,
             const std::string& reason) {
  const auto write = to == VersionState::kFailed ? telemetry::LogError : telemetry::LogInfo;
  write("version changes state", {{"version", label},
                                  {"from", VersionStateName(from)},
                                  {"to", VersionStateName(to)},
                                  {"reason", reason}});
}

}  // namespace

Version::Version(std::string model, int64_t number, Origin origin, CrashWindow crashes,
                 Catalog* catalog)
    : model_(std::move(model)),
      number_(number),
      label_(VersionLabel(model_, number)),
      catalog_(catalog),
      origin_(std::move(origin)),
      platform_(origin_.builtin),
      crashes_(crashes) {
  absl::MutexLock lock(&mutex_);
  status_.model = model_;
  status_.version = std::to_string(number_);
  ShowOrigin(origin_, &status_);
  StepLocked(VersionState::kUploaded, "");
}

VersionState Version::state() const {
  absl::MutexLock lock(&mutex_);
  return status_.state;
}

VersionStatus Version::Status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

bool Version::AwaitSettled(absl::Duration timeout) const {
  const auto settled = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return IsSettled(status_.state);
  };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&settled), timeout);
}

void Version::StepLocked(VersionState to, std::string reason) {
  if (to != VersionState::kUploaded || !reason.empty()) {
    LogStep(label_, status_.state, to, reason);
  }
  status_.state = to;
  status_.reason = std::move(reason);
  if (to == VersionState::kReady) status_.ready_unix_seconds = absl::ToDoubleSeconds(
      absl::Now() - absl::UnixEpoch());
  if (!IsOnItsWay(to)) {
    status_.progress = {};
    status_.progress_target.clear();
  }
  // Under the lock, so that the catalog sees the steps in their order.
  catalog_->Put({.model = model_,
                 .version = status_.version,
                 .state = to,
                 .reason = status_.reason,
                 .platform = platform_,
                 .signature = status_.signature,
                 .queue = to == VersionState::kReady ? holdings_.queue : nullptr});
}

bool Version::Step(VersionState from, VersionState to, std::string reason, uint64_t attempt) {
  absl::MutexLock lock(&mutex_);
  if (!Is(attempt) || status_.state != from || !IsLegalStep(from, to)) return false;
  StepLocked(to, std::move(reason));
  return true;
}

bool Version::End(VersionState to, std::string reason, uint64_t attempt) {
  absl::MutexLock lock(&mutex_);
  if (!Is(attempt) || !IsLegalStep(status_.state, to)) return false;
  StepLocked(to, std::move(reason));
  return true;
}

bool Version::Renew(Origin origin) {
  absl::MutexLock lock(&mutex_);
  if (!IsLegalStep(status_.state, VersionState::kUploaded)) return false;
  VersionStatus fresh;
  fresh.model = status_.model;
  fresh.version = status_.version;
  fresh.sha256 = status_.sha256;  // versions never change
  fresh.state = status_.state;
  fresh.cards = status_.cards;  // until they are given back
  status_ = std::move(fresh);
  origin_ = std::move(origin);
  ShowOrigin(origin_, &status_);
  crashes_.Reset();
  attempt_.fetch_add(1, std::memory_order_acq_rel);
  StepLocked(VersionState::kUploaded, "");
  return true;
}

Origin Version::origin() const {
  absl::MutexLock lock(&mutex_);
  return origin_;
}

void Version::Edit(absl::FunctionRef<void(VersionStatus&)> change) {
  absl::MutexLock lock(&mutex_);
  const VersionState state = status_.state;
  change(status_);
  status_.state = state;
}

void Version::SetPlatform(std::string platform, std::shared_ptr<const Signature> signature) {
  absl::MutexLock lock(&mutex_);
  platform_ = std::move(platform);
  status_.signature = std::move(signature);
}

void Version::BeginHolding(cards::ExecutableId executable) {
  absl::MutexLock lock(&mutex_);
  holdings_ = {};
  holdings_.executable = executable;
  NameCards();
}

cards::ExecutableId Version::executable() const {
  absl::MutexLock lock(&mutex_);
  return holdings_.executable;
}

void Version::HoldArtifact(std::shared_ptr<artifacts::ArtifactRef> artifact) {
  absl::MutexLock lock(&mutex_);
  holdings_.artifacts.push_back(std::move(artifact));
}

void Version::HoldQueue(std::shared_ptr<scheduling::ModelQueue> queue) {
  absl::MutexLock lock(&mutex_);
  holdings_.queue = std::move(queue);
}

std::shared_ptr<scheduling::ModelQueue> Version::queue() const {
  absl::MutexLock lock(&mutex_);
  return holdings_.queue;
}

void Version::NameCards() {
  status_.cards.clear();
  for (const cards::Card* card : holdings_.cards) status_.cards.push_back(card->name());
}

void Version::AddCard(cards::Card* card) {
  absl::MutexLock lock(&mutex_);
  holdings_.cards.push_back(card);
  NameCards();
}

std::optional<size_t> Version::RemoveCard(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  auto& cards = holdings_.cards;
  const auto found = std::find_if(cards.begin(), cards.end(),
                                  [&](const cards::Card* card) { return card->name() == name; });
  if (found == cards.end()) return std::nullopt;
  cards.erase(found);
  NameCards();
  return cards.size();
}

std::vector<cards::Card*> Version::cards() const {
  absl::MutexLock lock(&mutex_);
  return holdings_.cards;
}

Holdings Version::TakeHoldings() {
  absl::MutexLock lock(&mutex_);
  Holdings out = std::exchange(holdings_, {});
  NameCards();
  return out;
}

bool Version::NoteCrash(MonoNs now) {
  absl::MutexLock lock(&mutex_);
  const bool too_many = crashes_.Add(now);
  status_.crashes = crashes_.count();
  return too_many;
}

}  // namespace belfry::serving
