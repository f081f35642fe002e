// From an artifact to cards that hold it and have run it. One card after the
// other: a model that kills cards then meets one at a time, and while one card
// is busy with loading, the others serve.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/serving/load_run.h"
#include "server/telemetry/log.h"

namespace belfry::serving {

void LoadRun::Show(std::string stage) {
  version_.Edit([&](VersionStatus& status) {
    status.progress.stage = std::move(stage);
    status.progress.seconds = static_cast<double>(rooms_.clock->Now() - begun_) * 1e-9;
  });
}

absl::Status LoadRun::OnCard(cards::Card* card, absl::FunctionRef<absl::Status()> action) {
  absl::Status status;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (stopped()) return absl::CancelledError("told to stop");
    const bool was_ready = card->state() == cards::CardState::kReady;
    const int restarts = card->Info().restarts;
    status = action();
    if (!absl::IsUnavailable(status)) return status;
    // A card that was down before and stayed so is not this version's doing.
    const bool died = was_ready || card->Info().restarts != restarts;
    const std::string why(status.message());
    telemetry::LogWarning("card was lost while loading", {{"version", version_.label()},
                                                          {"card", card->name()},
                                                          {"counts", died},
                                                          {"reason", why}});
    if (!died || !version_.NoteCrash(rooms_.clock->Now())) continue;
    quarantined_ = absl::FailedPreconditionError(
        absl::StrCat("quarantined: cards were lost while loading it, last ", card->name(), ": ",
                     status.message()));
    return quarantined_;
  }
  return status;
}

absl::Status LoadRun::LoadOnCards() {
  if (auto status = Advance(VersionState::kCompiled, VersionState::kLoading); !status.ok()) {
    return status;
  }
  for (const Seat& seat : seats_) {
    Show(absl::StrCat("load ", seat.card->name()));
    const auto status = LoadOn(seat);
    if (stopped()) return absl::CancelledError("told to stop");
    if (!quarantined_.ok()) return quarantined_;
    if (!status.ok()) Lacks(seat.card->name(), status);
  }
  return version_.cards().empty() ? NoneLeft() : absl::OkStatus();
}

absl::Status LoadRun::LoadOn(const Seat& seat) {
  const cards::ExecutableSpec spec{.id = version_.executable(),
                                   .label = version_.label(),
                                   .artifact_dir = seat.artifact_dir,
                                   .builtin = origin_.builtin};
  // Before it is true, so that the event of its loss cannot come too early.
  version_.AddCard(seat.card);
  auto status = OnCard(seat.card, [&] { return seat.card->Load(spec); });
  if (!status.ok()) version_.RemoveCard(seat.card->name());
  return status;
}

absl::Status LoadRun::WarmCards() {
  if (auto status = Advance(VersionState::kLoading, VersionState::kWarming); !status.ok()) {
    return status;
  }
  for (cards::Card* card : version_.cards()) {
    const auto status = WarmOn(card);
    if (stopped()) return absl::CancelledError("told to stop");
    if (status.ok()) continue;
    if (quarantined_.ok()) Lacks(card->name(), status);
    if (version_.RemoveCard(card->name())) (void)card->Unload(version_.executable());
    if (!quarantined_.ok()) return quarantined_;
  }
  return version_.cards().empty() ? NoneLeft() : absl::OkStatus();
}

absl::Status LoadRun::WarmOn(cards::Card* card) {
  const WarmPlan plan = PlanWarmup(queue_, card->input_capacity(), card->output_capacity());
  const auto budget = static_cast<double>(absl::ToInt64Nanoseconds(loader_.options_.warm_budget));
  const MonoNs begun = rooms_.clock->Now();
  double per_cost = 0;  // ns, of the execution before
  size_t done = 0;
  for (const WarmStep& step : plan.steps) {
    const MonoNs before = rooms_.clock->Now();
    const double expected = static_cast<double>(before - begun) + per_cost * step.cost;
    // The first is run whatever it takes: it pays for what all have in common.
    if (done > 0 && expected > budget) break;
    Show(absl::StrCat("warm ", card->name(), " ", done + 1, "/", plan.steps.size()));
    const auto status = OnCard(card, [&] {
      return card->Warm(version_.executable(), std::span(&step.shape, 1));
    });
    if (!status.ok()) return status;
    per_cost = static_cast<double>(rooms_.clock->Now() - before) / std::max(1.0, step.cost);
    ++done;
  }
  telemetry::LogInfo("version is warm", {{"version", version_.label()},
                                         {"card", card->name()},
                                         {"shapes", done},
                                         {"over_budget", plan.steps.size() - done},
                                         {"too_large", plan.too_large},
                                         {"left_out", plan.left_out}});
  return absl::OkStatus();
}

}  // namespace belfry::serving
