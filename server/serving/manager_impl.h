// The inside of Manager; for the files of this room that implement it.
#ifndef BELFRY_SERVER_SERVING_MANAGER_IMPL_H_
#define BELFRY_SERVER_SERVING_MANAGER_IMPL_H_

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/serving/load_roots.h"
#include "server/serving/loader.h"
#include "server/serving/manager.h"
#include "server/serving/version_table.h"
#include "server/serving/worker_pool.h"

namespace belfry::serving {

using VersionPtr = std::shared_ptr<Version>;

// What everyone is told once the server drains.
inline constexpr char kServerDrains[] = "the server is draining";

// Lock order: mutex_, then a Version's, then the catalog's. Cards' threads come
// in through the two events; nothing slow happens under mutex_.
class Manager::Impl {
 public:
  Impl(ManagerOptions options, Catalog* catalog, Rooms rooms);
  ~Impl();

  void Start();
  absl::Status LoadModel(const std::string& model);
  absl::StatusOr<std::pair<std::string, std::string>> LoadPath(const std::string& path,
                                                               const std::string& model,
                                                               int64_t version);
  absl::Status Unload(const std::string& model, const std::string& version);
  absl::StatusOr<VersionStatus> Wait(const std::string& model, const std::string& version,
                                     absl::Duration timeout);
  absl::StatusOr<VersionPtr> Lookup(const std::string& model, const std::string& version);
  std::vector<VersionPtr> All() const {
    absl::MutexLock lock(&mutex_);
    return table_.All();
  }
  bool Ready();
  void Drain(absl::Duration timeout);
  void OnCardCrashed(cards::ExecutableId executable, const std::string& card,
                     const absl::Status& status);
  void OnResidencyLost(cards::ExecutableId executable, const std::string& card,
                       const absl::Status& status);

 private:
  // Makes the version known and wished; returns its number (files.version 0:
  // the next). 'builtin' in place of files.
  absl::StatusOr<int64_t> Admit(ModelFiles files, const std::string& builtin);
  absl::StatusOr<int64_t> AdmitLocked(const Origin& origin, int64_t number)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The digest that has to be compared before 'origin' is taken for the
  // version; empty if that is not needed.
  absl::StatusOr<std::string> DigestToCompare(const Origin& origin, int64_t number)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status LoadKnown(const std::string& model, const std::vector<std::string>& faults);
  bool ServesHigher(const std::string& model, int64_t number);

  // Starts what the policy says, until it says nothing more.
  void Reconcile(const std::string& model) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin(const Action& action, VersionSlot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Post(WorkerPool& pool, VersionSlot& slot, void (Loader::*task)(Version&))
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A task of the version has ended.
  void Done(const VersionPtr& version);
  // The version is FAILED: off the cards with it.
  void Retire(VersionSlot& slot, absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ManagerOptions options_;
  const LoadRoots roots_;
  Catalog* const catalog_;
  const Rooms rooms_;
  Loader loader_;

  mutable absl::Mutex mutex_;
  VersionTable table_ ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<VersionPtr> awaited_ ABSL_GUARDED_BY(mutex_);  // of Start, not settled yet
  std::set<std::string> required_ ABSL_GUARDED_BY(mutex_);

  // Last: their threads use the rest. Loads may take half an hour, drains half a
  // minute; neither holds up a quarantine.
  WorkerPool loads_;
  WorkerPool retires_;
  WorkerPool urgent_;
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_MANAGER_IMPL_H_
