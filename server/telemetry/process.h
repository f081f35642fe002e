// What the kernel knows of this process, for the process_* metrics.
#ifndef BELFRY_SERVER_TELEMETRY_PROCESS_H_
#define BELFRY_SERVER_TELEMETRY_PROCESS_H_

#include <cstdint>
#include <optional>

namespace belfry::telemetry {

struct ProcessSample {
  double cpu_seconds = 0;         // user and system, without children
  double start_time_seconds = 0;  // since the epoch
  uint64_t resident_bytes = 0;
  uint64_t virtual_bytes = 0;
  uint64_t threads = 0;
  uint64_t open_fds = 0;
  double max_fds = 0;  // +Inf when unlimited
};

// Read from /proc; nullopt where that cannot be read (then no process_* metric
// is shown rather than zeros). Thread-safe.
std::optional<ProcessSample> SampleProcess();

}  // namespace belfry::telemetry

#endif  // BELFRY_SERVER_TELEMETRY_PROCESS_H_
