// Brings one version to READY, and away again. Everything here may take long
// and runs on the manager's threads; at most one call at a time for a version,
// but FailFast, which may come in between.
#ifndef BELFRY_SERVER_SERVING_LOADER_H_
#define BELFRY_SERVER_SERVING_LOADER_H_

#include <atomic>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/artifacts/store.h"
#include "server/base/clock.h"
#include "server/base/files.h"
#include "server/cards/pool.h"
#include "server/scheduling/dispatcher.h"
#include "server/serving/version.h"
#include "server/telemetry/metrics.h"

namespace belfry::serving {

// What an artifact for a driver must have been compiled for (cards::DescribeDriver).
using DescribeFn =
    std::function<absl::StatusOr<std::map<std::string, std::string>>(const std::string& driver)>;

struct LoaderOptions {
  absl::Duration drain_timeout = absl::Seconds(30);
  absl::Duration warm_budget = absl::Seconds(60);  // per card
  int64_t max_answer_bytes = 2047ll << 20;
  DescribeFn describe;
};

// The other rooms, as a load uses them. Owns nothing.
struct Rooms {
  scheduling::Dispatcher* dispatcher = nullptr;
  cards::CardPool* pool = nullptr;
  artifacts::ArtifactStore* store = nullptr;
  telemetry::Metrics* metrics = nullptr;
  FileSystem* files = &FileSystem::Real();
  const Clock* clock = &Clock::Real();
};

// Thread-safe.
class Loader {
 public:
  Loader(LoaderOptions options, Rooms rooms) : options_(std::move(options)), rooms_(rooms) {}

  // UPLOADED -> READY; or FAILED with the reason; or, when told to stop,
  // UNLOADED. Holds nothing unless READY.
  void Load(Version& version);
  // DRAINING -> UNLOADED, once every accepted request is answered or the time
  // for that is over.
  void Drain(Version& version);
  // For a version that has become FAILED: refuses and answers what waits, so
  // that no card gets any of it. Does not wait for what runs.
  void FailFast(Version& version, const absl::Status& why);
  // Takes it off its cards and lets go of its artifacts.
  void CleanUp(Version& version);
  // The same, but leaves it on the cards: at the end of the process they end too.
  void LetGo(Version& version);

 private:
  friend class LoadRun;

  // Asked once for each driver, then kept.
  absl::StatusOr<std::map<std::string, std::string>> Describe(const std::string& driver);

  const LoaderOptions options_;
  const Rooms rooms_;
  std::atomic<cards::ExecutableId> next_executable_{1};
  absl::Mutex describe_mutex_;
  std::map<std::string, std::map<std::string, std::string>> described_
      ABSL_GUARDED_BY(describe_mutex_);
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_LOADER_H_
