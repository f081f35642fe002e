// The process that stands between belfryd and a compile, so that a compile can
// be killed with everything it has started, whatever process group or session
// that has moved to.
//
// It is a clone of belfryd that never runs anything but the code here: it starts
// the command, waits for it, kills what is left, reports and exits. It does so
// too when its control pipe closes, which the kernel sees to if belfryd dies.
// Where the kernel allows (CAP_SYS_ADMIN) it is the first process of a PID
// namespace, which the kernel empties when it goes; elsewhere it is a
// "subreaper": orphans become its children, and it kills until it has none.
//
// Between clone and exec only async-signal-safe calls are allowed, since belfryd
// has threads: everything is prepared in SupervisorPlan beforehand.
#ifndef BELFRY_SERVER_ARTIFACTS_SUPERVISOR_H_
#define BELFRY_SERVER_ARTIFACTS_SUPERVISOR_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace belfry::artifacts {

struct SupervisorPlan {
  // Of the command. NULL-terminated arrays; all memory is the caller's and
  // stays until StartSupervisor has returned.
  const char* const* argv;  // argv[0] is a path
  const char* const* env;
  const char* folder;       // to run in
  int stdin_fd, stdout_fd, stderr_fd;
  int control_fd;  // read end: closing the other end kills
  int report_fd;   // write end: one SupervisorReport, then it closes
  uint64_t data_limit_bytes;  // RLIMIT_DATA of each process; 0: none
  bool low_priority;
  bool try_namespace;
};

struct SupervisorReport {
  enum Kind : int32_t { kEnded = 1, kCannotStart = 2, kKilled = 3 };
  int32_t kind;
  int32_t value;  // kEnded: as of wait(2); kCannotStart: errno
};

struct Supervisor {
  pid_t pid = -1;
  bool has_namespace = false;  // SIGKILL to it kills everything at once
};

absl::StatusOr<Supervisor> StartSupervisor(const SupervisorPlan& plan);

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_SUPERVISOR_H_
