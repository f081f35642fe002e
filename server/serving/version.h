// One version: its state, what is told of it, and what it holds while it is on
// cards.
#ifndef BELFRY_SERVER_SERVING_VERSION_H_
#define BELFRY_SERVER_SERVING_VERSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/artifacts/store.h"
#include "server/base/clock.h"
#include "server/base/files.h"
#include "server/cards/card.h"
#include "server/scheduling/model_queue.h"
#include "server/serving/catalog.h"
#include "server/serving/model_files.h"
#include "server/serving/quarantine.h"
#include "server/serving/version_state.h"
#include "server/serving/version_status.h"

namespace belfry::serving {

// Where a version comes from.
struct Origin {
  std::string builtin;  // "echo"; empty: files
  ModelFiles files;
  FileInfo stamp;       // of the .pt2 when it was asked for
};

// What has to be given back when a version leaves its cards.
struct Holdings {
  cards::ExecutableId executable = 0;
  std::shared_ptr<scheduling::ModelQueue> queue;
  std::vector<cards::Card*> cards;
  std::vector<std::shared_ptr<artifacts::ArtifactRef>> artifacts;
};

// Thread-safe, also for cards' threads: its mutex is held for moments only, and
// never while something outside is called but the catalog. The only place that
// changes a state: each step is checked against the table and published in the
// catalog before anyone else sees it.
class Version {
 public:
  Version(std::string model, int64_t number, Origin origin, CrashWindow crashes,
          Catalog* catalog);

  const std::string& model() const { return model_; }
  int64_t number() const { return number_; }
  const std::string& label() const { return label_; }  // "card-fraud/1"

  VersionState state() const;
  VersionStatus Status() const;
  // Waits until the state is settled (READY, UNLOADED, FAILED).
  bool AwaitSettled(absl::Duration timeout) const;

  // Each time that the version is asked for anew is an attempt. A task of a
  // former one may still be at its end; what it says is no longer heard.
  uint64_t attempt() const { return attempt_.load(std::memory_order_acquire); }
  static constexpr uint64_t kAnyAttempt = 0;

  // Makes the step if the version is in 'from'; false otherwise: someone else
  // decided meanwhile. 'reason' replaces the one before.
  bool Step(VersionState from, VersionState to, std::string reason = {},
            uint64_t attempt = kAnyAttempt);
  // From wherever it is to FAILED or UNLOADED, if that is legal.
  bool End(VersionState to, std::string reason, uint64_t attempt = kAnyAttempt);
  // FAILED or UNLOADED -> UPLOADED: everything starts anew, crashes forgotten.
  bool Renew(Origin origin);

  Origin origin() const;
  // Changes what is told, not the state.
  void Edit(absl::FunctionRef<void(VersionStatus&)> change);
  // What the catalog shows besides, from the next step on.
  void SetPlatform(std::string platform, std::shared_ptr<const Signature> signature);

  // Tells the load of this attempt to stop.
  void Cancel() { cancelled_up_to_.store(attempt(), std::memory_order_release); }
  bool cancelled(uint64_t attempt) const {
    return attempt <= cancelled_up_to_.load(std::memory_order_acquire);
  }
  bool cancelled() const { return cancelled(attempt()); }

  // A new executable for this load; events of former ones are no longer its own.
  void BeginHolding(cards::ExecutableId executable);
  cards::ExecutableId executable() const;
  void HoldArtifact(std::shared_ptr<artifacts::ArtifactRef> artifact);
  void HoldQueue(std::shared_ptr<scheduling::ModelQueue> queue);
  std::shared_ptr<scheduling::ModelQueue> queue() const;
  void AddCard(cards::Card* card);
  // How many cards are left; nullopt if it was not one of them.
  std::optional<size_t> RemoveCard(const std::string& name);
  std::vector<cards::Card*> cards() const;
  // All of it, once: whoever gets it gives it back.
  Holdings TakeHoldings();

  // A card was lost, and this version seems to be the cause. True if that was
  // one too many.
  bool NoteCrash(MonoNs now);

 private:
  bool Is(uint64_t attempt) const { return attempt == kAnyAttempt || attempt == this->attempt(); }
  void StepLocked(VersionState to, std::string reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NameCards() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string model_;
  const int64_t number_;
  const std::string label_;
  Catalog* const catalog_;
  std::atomic<uint64_t> attempt_{1};
  std::atomic<uint64_t> cancelled_up_to_{0};

  mutable absl::Mutex mutex_;
  Origin origin_ ABSL_GUARDED_BY(mutex_);
  VersionStatus status_ ABSL_GUARDED_BY(mutex_);
  std::string platform_ ABSL_GUARDED_BY(mutex_);
  CrashWindow crashes_ ABSL_GUARDED_BY(mutex_);
  Holdings holdings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_VERSION_H_
