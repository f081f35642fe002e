// One artifact on its way, for all who ask for it at the same time.
#ifndef BELFRY_SERVER_ARTIFACTS_FLIGHT_H_
#define BELFRY_SERVER_ARTIFACTS_FLIGHT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/artifacts/cache.h"
#include "server/artifacts/store.h"

namespace belfry::artifacts {

struct Landing {
  std::shared_ptr<PinnedArtifact> artifact;
  bool from_cache = false;
};

// Runs at most one job per key, each on a thread of its own, and gives its
// result to everybody who joined. Thread-safe. Destroying it cancels all jobs
// and waits for them and for everybody inside Join.
class Flights {
 public:
  using Report = std::function<void(const CompileProgress&)>;
  // Runs on the flight's thread. 'cancelled' turns true when nobody waits any
  // more.
  using Job = std::function<absl::StatusOr<Landing>(const Report& report,
                                                    const std::function<bool()>& cancelled)>;

  ~Flights();

  // Starts 'job' unless a flight of 'key' is on its way, and waits. CANCELLED as
  // soon as 'cancelled' (called here, about every 50 ms) says so.
  absl::StatusOr<Landing> Join(const std::string& key, const Job& job, const Report& progress,
                               const std::function<bool()>& cancelled);

  // True once the destructor runs.
  bool closing() const;

 private:
  struct Flight {
    std::thread thread;
    int askers = 0;
    bool abandoned = false;  // its last asker left; nobody may join any more
    bool landed = false;
    absl::StatusOr<Landing> result = absl::UnknownError("on its way");
    CompileProgress progress;
    uint64_t reports = 0;
  };
  using FlightPtr = std::shared_ptr<Flight>;

  absl::StatusOr<FlightPtr> Board(const std::string& key, const Job& job,
                                  const std::function<bool()>& cancelled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fly(const std::string& key, FlightPtr flight, const Job& job);
  absl::StatusOr<Landing> Wait(const FlightPtr& flight, const Report& progress,
                               const std::function<bool()>& cancelled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WaitTick(const std::function<bool()>& cancelled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void JoinLanded();

  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, FlightPtr> flying_ ABSL_GUARDED_BY(mutex_);
  std::vector<FlightPtr> landed_ ABSL_GUARDED_BY(mutex_);  // threads to be joined
};

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_FLIGHT_H_
