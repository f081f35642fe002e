// What Prometheus scrapes. Names, types and labels: README.md of this room.
#ifndef BELFRY_SERVER_TELEMETRY_METRICS_H_
#define BELFRY_SERVER_TELEMETRY_METRICS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/telemetry/model_metrics.h"

namespace belfry::telemetry {

// Gathered at scrape time from whoever knows; plain data so that telemetry
// depends on no other room.
struct CardSample {
  std::string card, driver, state;  // state: STARTING, READY, …
  double busy_seconds = 0;
  uint64_t batches = 0, restarts = 0, cycles = 0;
  uint64_t memory_used = 0, memory_total = 0;
};
struct VersionSample {
  std::string model, version, state;
};

// Owns the figures, the sources and the HTTP server. Thread-safe, but Listen is
// called once. One per process; 'clock' must outlive it.
class Metrics {
 public:
  explicit Metrics(const Clock& clock = Clock::Real());
  ~Metrics();
  Metrics(const Metrics&) = delete;

  // The figures of MODEL/VERSION: the same object for the same pair, so that
  // counters survive a reload. Removed from the exposition only by
  // ForgetModel.
  std::shared_ptr<ModelMetrics> ForModel(const std::string& model, const std::string& version);
  void ForgetModel(const std::string& model, const std::string& version);

  // Called at each scrape, from the scraping thread. Once Set…(nullptr) has
  // returned, the former source is not running and will not run: whoever it
  // refers to does that before it goes away.
  void SetCardSource(std::function<std::vector<CardSample>()> source);
  void SetVersionSource(std::function<std::vector<VersionSample>()> source);

  // Requests that could not be put down to a model that exists (decode errors,
  // unknown names): by code, no client string ever becomes a label.
  void CountRejected(absl::StatusCode code);

  // Compile and cache.
  void CacheHit(const std::string& target);
  void CacheMiss(const std::string& target);
  void CacheEvicted(uint64_t bytes);
  void SetCacheBytes(uint64_t bytes);
  void CompileDone(const std::string& target, bool ok, double seconds);

  // Starts the HTTP server; "127.0.0.1:8002" (port 0: any free one, see
  // ListeningPorts). Serves GET /metrics.
  absl::Status Listen(const std::string& address);
  std::vector<int> ListeningPorts() const;
  // The exposition as text, without HTTP (tests).
  std::string Render() const;

 private:
  class Impl;
  struct Server;
  std::shared_ptr<Impl> impl_;  // shared with the HTTP server's threads
  std::unique_ptr<Server> server_;
};

}  // namespace belfry::telemetry

#endif  // BELFRY_SERVER_TELEMETRY_METRICS_H_
