// The life of every version: from a file to READY on cards and away again.
#ifndef BELFRY_SERVER_SERVING_MANAGER_H_
#define BELFRY_SERVER_SERVING_MANAGER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/artifacts/store.h"
#include "server/cards/pool.h"
#include "server/scheduling/dispatcher.h"
#include "server/serving/catalog.h"
#include "server/serving/model_config.h"
#include "server/telemetry/metrics.h"

namespace belfry::serving {

enum class VersionPolicy { kLatest, kAll };

struct ManagerOptions {
  std::string model_dir;              // NAME/VERSION/model.pt2; empty: none
  std::vector<std::string> load_roots;  // `belfry load PATH` only below these; model_dir is one
  VersionPolicy policy = VersionPolicy::kLatest;
  int parallel_loads = 2;             // versions on their way at once
  // Suspected card crashes of one version within the window -> quarantine.
  int quarantine_crashes = 3;
  absl::Duration quarantine_window = absl::Minutes(10);
  absl::Duration drain_timeout = absl::Seconds(30);
};

// Everything that `belfry show` tells of a version.
struct VersionStatus {
  std::string model, version;
  VersionState state = VersionState::kUploaded;
  std::string reason;
  std::string path;                 // of the .pt2; empty for a built-in
  std::string key;                  // artifact
  bool cache_hit = false;
  double compile_seconds = 0;       // 0 when it came from the cache
  double load_seconds = 0;          // UPLOADED -> READY without the compile
  std::string report_json;          // compile report
  artifacts::CompileProgress progress;  // while COMPILING
  std::shared_ptr<const Signature> signature;
  std::vector<std::string> cards;   // resident on
  int crashes = 0;
};

// Thread-safe. Owns the threads that load and unload. Public methods block
// only where they say so.
class Manager : public scheduling::ModelListener {
 public:
  Manager(ManagerOptions options, Catalog* catalog, scheduling::Dispatcher* dispatcher,
          cards::CardPool* pool, artifacts::ArtifactStore* store, telemetry::Metrics* metrics);
  ~Manager() override;

  // Loads 'echo' and what lies in model_dir under the policy; returns at once.
  // 'required' models are those that readiness waits for.
  void Start();

  // Starts loading; the state is seen through Status. model_dir model: the
  // newest version there under the policy (a new one beside the old, which is
  // drained once the new one is READY and stays if it fails).
  absl::Status LoadModel(const std::string& model);
  // A file below a load root. Name and version default to the folder layout
  // NAME/VERSION/model.pt2; version 0: one more than the newest.
  absl::StatusOr<std::pair<std::string, std::string>> LoadPath(const std::string& path,
                                                               const std::string& model,
                                                               int64_t version);
  // Drains and unloads; version empty: all versions.
  absl::Status Unload(const std::string& model, const std::string& version);
  // Blocks until the version is READY, FAILED or UNLOADED.
  absl::StatusOr<VersionStatus> Wait(const std::string& model, const std::string& version,
                                     absl::Duration timeout);

  absl::StatusOr<VersionStatus> Status(const std::string& model, const std::string& version) const;
  std::vector<VersionStatus> StatusOfAll() const;
  absl::StatusOr<std::string> ExplainCacheMiss(const std::string& model, const std::string& version);

  // Every version that was asked for at start is READY or has ended, and a card
  // is READY.
  bool Ready() const;
  // Refuses loads, cancels compiles, closes every queue and waits until all
  // accepted requests are answered or the time is over.
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
