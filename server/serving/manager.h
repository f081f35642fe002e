// The life of every version: from a file to READY on cards and away again.
#ifndef BELFRY_SERVER_SERVING_MANAGER_H_
#define BELFRY_SERVER_SERVING_MANAGER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/artifacts/store.h"
#include "server/base/clock.h"
#include "server/cards/pool.h"
#include "server/scheduling/dispatcher.h"
#include "server/serving/catalog.h"
#include "server/serving/loader.h"
#include "server/serving/model_config.h"
#include "server/serving/version_status.h"
#include "server/telemetry/metrics.h"

namespace belfry::serving {

enum class VersionPolicy {
  kLatest,  // the newest version of a folder; it replaces the lower ones
  kAll,     // every version of a folder, side by side
};

struct ManagerOptions {
  std::string model_dir;              // NAME/VERSION/model.pt2; empty: none
  std::vector<std::string> load_roots;  // `belfry load PATH` only below these; model_dir is one
  VersionPolicy policy = VersionPolicy::kLatest;
  int parallel_loads = 2;             // versions on their way at once
  // Suspected card crashes of one version within the window -> quarantine.
  int quarantine_crashes = 3;
  absl::Duration quarantine_window = absl::Minutes(10);
  absl::Duration drain_timeout = absl::Seconds(30);
  int64_t max_answer_bytes = 2047ll << 20;  // tensors of one answer
  // Time on one card for the warm-up of one version; the rest of its shapes is
  // left out.
  absl::Duration warm_budget = absl::Seconds(60);
  // cards::DescribeDriver with the binary at hand. Needed for whatever is
  // compiled.
  DescribeFn describe_driver;
};

// Thread-safe. Owns the threads that load and unload. Public methods block only
// where they say so.
//
// Make it the dispatcher's model listener before Start. Catalog, dispatcher,
// pool, store and metrics outlive it. Before it is destroyed the cards must
// have stopped (CardPool::Stop), so that no event of theirs is on its way here.
class Manager : public scheduling::ModelListener {
 public:
  Manager(ManagerOptions options, Catalog* catalog, scheduling::Dispatcher* dispatcher,
          cards::CardPool* pool, artifacts::ArtifactStore* store, telemetry::Metrics* metrics,
          const Clock* clock = &Clock::Real());
  // Cancels what is on its way, answers UNAVAILABLE to what still waits, joins
  // all threads.
  ~Manager() override;

  // Loads 'echo' and what lies in model_dir under the policy; returns once the
  // folder has been listed. These models are the ones that readiness waits for.
  void Start();

  // Both start loading; the state is seen through Status. A new version comes up
  // beside the old one, which is drained once the new one is READY and stays if
  // it fails. What is READY already, from the same bytes, is left alone: OK.
  // What has FAILED or was UNLOADED is tried again. They look at the file
  // system, and read a file whole only if a version that is known seems to have
  // changed.
  //   ALREADY_EXISTS  the version is known with other bytes
  //   UNAVAILABLE     the server drains
  //
  // By name: from model_dir the newest version, or all, under the policy; a
  // model that does not lie there is loaded again from where it came from.
  absl::Status LoadModel(const std::string& model);
  // By path, below a load root (load_roots.h: the forms of a path and the
  // errors). Name and version default to the folder layout
  // NAME/VERSION/model.pt2; version 0: one more than the newest. Returns name
  // and version. An explicit version that is lower than one that serves is
  // served beside it and replaces nothing.
  absl::StatusOr<std::pair<std::string, std::string>> LoadPath(const std::string& path,
                                                               const std::string& model,
                                                               int64_t version);
  // Starts to drain and unload; version empty: all versions. From its return on
  // no new request gets to it. A load under way is stopped. OK if it is
  // unloaded already, NOT_FOUND if it was never known.
  absl::Status Unload(const std::string& model, const std::string& version);
  // Blocks until the version is READY, FAILED or UNLOADED; DEADLINE_EXCEEDED.
  absl::StatusOr<VersionStatus> Wait(const std::string& model, const std::string& version,
                                     absl::Duration timeout);

  absl::StatusOr<VersionStatus> Status(const std::string& model, const std::string& version) const;
  std::vector<VersionStatus> StatusOfAll() const;  // by name, then number
  // For each target one paragraph: in what the nearest artifact of the cache
  // differed when this version was loaded, or that it was found.
  absl::StatusOr<std::string> ExplainCacheMiss(const std::string& model,
                                               const std::string& version);

  // Every version that was asked for at start has been READY or has ended, and
  // each of these models that has a READY version has a READY card for it.
  bool Ready() const;
  // Refuses loads, cancels compiles, closes every queue and waits until all
  // accepted requests are answered or the time is over. Blocks. May be called
  // again, to wait longer or not at all.
  void Drain(absl::Duration timeout);

  void OnCardCrashed(const std::shared_ptr<scheduling::ModelQueue>& queue, const std::string& card,
                     const absl::Status& status) override;
  void OnResidencyLost(cards::ExecutableId executable, const std::string& card,
                       const absl::Status& status) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_MANAGER_H_
