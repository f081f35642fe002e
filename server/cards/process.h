// One child process: started without copying this process, watched and killed
// through a pidfd, reaped exactly once.
#ifndef BELFRY_SERVER_CARDS_PROCESS_H_
#define BELFRY_SERVER_CARDS_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/cards/unique_fd.h"

namespace belfry::cards {

struct SpawnFd {
  int source = -1;  // here
  int target = -1;  // in the child
};

struct SpawnRequest {
  std::vector<std::string> argv;  // argv[0] is the path
  // stdin is /dev/null. Descriptors that are not named here (0 to 2 included)
  // are closed in the child, whether or not they are close-on-exec. Targets are
  // 1, 2, … without a gap.
  std::vector<SpawnFd> fds;
};

// The child leads a process group of its own, so that a terminal's Ctrl-C does
// not reach it and whatever it starts dies with it. Destroying a ChildProcess
// that was not reaped kills and reaps the child.
// pid(), pidfd() and Kill() from any thread; the rest from one thread.
class ChildProcess {
 public:
  // The child's PR_SET_PDEATHSIG, if it asks for one, fires when the calling
  // *thread* ends: call it from a thread that outlives the child.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Spawn(const SpawnRequest& request);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Readable (POLLIN) once the process has ended.
  int pidfd() const { return pidfd_.get(); }
  // SIGKILL. Never hits a stranger that got the same pid later.
  void Kill() const;
  // After Reap: the signal that ended the process, 0 if it exited by itself.
  int end_signal() const { return end_signal_; }
  // Waits for the end, kills what is left of the process group, reaps. Returns
  // for example "exited with code 3" or "killed by signal 9 (Killed)"; nullopt
  // if the process has not ended in time.
  std::optional<std::string> Reap(absl::Duration timeout);

 private:
  ChildProcess(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  const pid_t pid_;
  const UniqueFd pidfd_;
  bool reaped_ = false;
  int end_signal_ = 0;
};

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_PROCESS_H_
