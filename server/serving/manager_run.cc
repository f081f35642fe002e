// What the manager does by itself: start what the policy says, and answer to
// what happens to cards.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/serving/manager_impl.h"
#include "server/telemetry/log.h"

namespace belfry::serving {

void Manager::Impl::Reconcile(const std::string& model) {
  if (draining_) return;
  while (const auto action = NextAction(table_.Views(model))) {
    Begin(*action, *table_.Find(model, action->number));
  }
}

void Manager::Impl::Begin(const Action& action, VersionSlot& slot) {
  Version& version = *slot.version;
  switch (action.kind) {
    case ActionKind::kLoad:
      return Post(loads_, slot, &Loader::Load);
    case ActionKind::kCancel:
      version.Cancel();
      // Not begun, perhaps behind a long compile: nothing to wait for.
      version.Step(VersionState::kUploaded, VersionState::kUnloaded,
                   "unloaded before it was READY");
      return;
    case ActionKind::kDrop:
      version.End(VersionState::kUnloaded, "");
      return;
    case ActionKind::kWithdraw:
      version.Step(VersionState::kReady, VersionState::kDraining);
      return;
    case ActionKind::kDrain:
      return Post(retires_, slot, &Loader::Drain);
  }
}

void Manager::Impl::Post(WorkerPool& pool, VersionSlot& slot, void (Loader::*task)(Version&)) {
  ++slot.busy;
  pool.Post([this, task, version = slot.version] {
    (loader_.*task)(*version);
    Done(version);
  });
}

void Manager::Impl::Done(const VersionPtr& version) {
  std::vector<VersionPtr> forgotten;
  {
    absl::MutexLock lock(&mutex_);
    VersionSlot* slot = table_.Find(version->model(), version->number());
    if (slot == nullptr || slot->version != version) return;
    --slot->busy;
    if (slot->again && slot->busy == 0 && slot->version->Renew(slot->origin)) slot->again = false;
    Reconcile(version->model());
    forgotten = table_.Prune(version->model());
  }
  for (const VersionPtr& old : forgotten) {
    catalog_->Remove(old->model(), std::to_string(old->number()));
    rooms_.metrics->ForgetModel(old->model(), std::to_string(old->number()));
  }
}

void Manager::Impl::Retire(VersionSlot& slot, absl::Status why) {
  ++slot.busy;
  urgent_.Post([this, version = slot.version, why = std::move(why)] {
    loader_.FailFast(*version, why);
    retires_.Post([this, version] {
      loader_.CleanUp(*version);
      Done(version);
    });
  });
}

void Manager::Impl::OnCardCrashed(cards::ExecutableId executable, const std::string& card,
                                  const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  VersionSlot* slot = table_.FindExecutable(executable);
  if (slot == nullptr || !slot->version->NoteCrash(rooms_.clock->Now())) return;
  const std::string reason =
      absl::StrCat("quarantined: cards lost within ",
                   absl::FormatDuration(options_.quarantine_window), " while running it: ",
                   slot->version->Status().crashes, ", last ", card, ": ", status.message());
  if (!slot->version->End(VersionState::kFailed, reason)) return;
  Retire(*slot, absl::FailedPreconditionError(
                    absl::StrCat("model '", slot->version->model(), "' version ",
                                 slot->version->number(), " is FAILED: ", reason)));
}

void Manager::Impl::OnResidencyLost(cards::ExecutableId executable, const std::string& card,
                                    const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  VersionSlot* slot = table_.FindExecutable(executable);
  if (slot == nullptr) return;
  Version& version = *slot->version;
  const auto left = version.RemoveCard(card);
  if (!left) return;
  const std::string lost = absl::StrCat(card, " lost it: ", status.message());
  telemetry::LogWarning("card lost a version", {{"version", version.label()},
                                                {"card", card},
                                                {"cards_left", *left},
                                                {"reason", std::string(status.message())}});
  if (*left == 0 && version.Step(VersionState::kReady, VersionState::kFailed,
                                 absl::StrCat("no card holds it any more; last, ", lost))) {
    return Retire(*slot, absl::UnavailableError(absl::StrCat(
                             "model '", version.model(), "' is on no card any more")));
  }
  if (version.state() == VersionState::kReady) {
    version.Edit([&](VersionStatus& shown) {
      absl::StrAppend(&shown.reason, shown.reason.empty() ? "" : "; ", lost);
    });
  }
  const auto& cards = rooms_.pool->cards();
  const auto at = std::find_if(cards.begin(), cards.end(),
                               [&](const cards::Card* c) { return c->name() == card; });
  const auto queue = version.queue();
  if (queue == nullptr || at == cards.end()) return;
  urgent_.Post([this, queue, which = *at] { rooms_.dispatcher->Detach(queue, which); });
}

}  // namespace belfry::serving
