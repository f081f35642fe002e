// A supervised child process with pipes on its stdout and stderr.
#ifndef BELFRY_SERVER_ARTIFACTS_CHILD_H_
#define BELFRY_SERVER_ARTIFACTS_CHILD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace belfry::artifacts {

struct ChildSpec {
  std::vector<std::string> argv;  // argv[0]: a path
  std::vector<std::string> env;   // "NAME=value"; nothing else is inherited
  std::string folder;             // working folder
  // Of all its processes together (anonymous memory, looked at now and then),
  // and a hard limit on the data of each; 0: none.
  uint64_t memory_bytes = 0;
  absl::Duration timeout = absl::InfiniteDuration();
  bool low_priority = false;
  bool try_namespace = true;  // false: only in tests of the other way to kill
};

struct ChildOutcome {
  enum class Reason { kExited, kSignalled, kTimeout, kMemory, kCancelled, kCannotStart };
  Reason reason = Reason::kExited;
  int value = 0;  // exit code, signal number or errno
  uint64_t peak_memory_bytes = 0;  // as far as it was looked at
};

struct ChildCallbacks {
  std::function<void(std::string_view)> on_stdout, on_stderr;  // pieces as they come
  // Asked about every 50 ms.
  std::function<bool()> cancelled;
};

// Runs the child to its end, which is the end of all its descendants too. Blocks;
// calls back on the calling thread. An error means that nothing was started.
absl::StatusOr<ChildOutcome> RunChild(const ChildSpec& spec, const ChildCallbacks& callbacks);

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_CHILD_H_
