#include "server/cards/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/clock.h"

extern char** environ;

namespace belfry::cards {
namespace {

// By number: glibc has wrappers since 2.36 only, and that release forgot to
// declare them for C++.
int PidfdOpen(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }
void PidfdKill(int pidfd) { syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0); }

// Frees what posix_spawn's attribute objects hold.
struct SpawnAttributes {
  SpawnAttributes() {
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
  }
  ~SpawnAttributes() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
};

// No signal blocked or ignored and a process group of its own, whatever the
// calling thread has.
int SetAttributes(posix_spawnattr_t* attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setsigdefault(attributes, &all);
  posix_spawnattr_setpgroup(attributes, 0);
  return posix_spawnattr_setflags(
      attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

// Copies of the sources above all targets, so that no dup2 to a target can
// overwrite a source that is still needed.
absl::StatusOr<std::vector<UniqueFd>> LiftSources(const std::vector<SpawnFd>& fds) {
  int floor = 3;
  for (const SpawnFd& fd : fds) floor = std::max(floor, fd.target + 1);
  std::vector<UniqueFd> lifted;
  for (const SpawnFd& fd : fds) {
    lifted.emplace_back(fcntl(fd.source, F_DUPFD_CLOEXEC, floor));
    if (!lifted.back()) {
      return absl::ErrnoToStatus(errno, absl::StrCat("copy file descriptor ", fd.source));
    }
  }
  return lifted;
}

std::string Describe(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return absl::StrCat("exited with code ", info.si_status);
  const char* name = sigdescr_np(info.si_status);
  return absl::StrCat("killed by signal ", info.si_status, " (", name == nullptr ? "?" : name,
                      ")", info.si_code == CLD_DUMPED ? ", core dumped" : "");
}

// poll(2) until readable; false after the timeout.
bool WaitReadable(int fd, absl::Duration timeout) {
  const absl::Duration until = absl::Nanoseconds(Clock::Real().Now()) + timeout;
  for (;;) {
    const absl::Duration left = until - absl::Nanoseconds(Clock::Real().Now());
    const int64_t ms = absl::ToInt64Milliseconds(left + absl::Microseconds(999));
    pollfd p{fd, POLLIN, 0};
    const int n = poll(&p, 1, static_cast<int>(std::clamp<int64_t>(ms, 0, 60'000)));
    if (n > 0) return true;
    if (n == 0 && left <= absl::ZeroDuration()) return false;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Spawn(const SpawnRequest& request) {
  auto lifted = LiftSources(request.fds);
  if (!lifted.ok()) return lifted.status();
  SpawnAttributes spawn;
  int error = SetAttributes(&spawn.attributes);
  int last = 0;
  posix_spawn_file_actions_addopen(&spawn.actions, 0, "/dev/null", O_RDONLY, 0);
  for (size_t i = 0; i < request.fds.size() && error == 0; ++i) {
    const int target = request.fds[i].target;
    error = posix_spawn_file_actions_adddup2(&spawn.actions, (*lifted)[i].get(), target);
    last = std::max(last, target);
  }
  if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(&spawn.actions, last + 1);

  std::vector<char*> argv;
  for (const std::string& arg : request.argv) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  // glibc's posix_spawn shares the address space until the exec (CLONE_VFORK),
  // so neither this process's size nor its other threads' locks matter.
  if (error == 0) {
    error = posix_spawn(&pid, argv[0], &spawn.actions, &spawn.attributes, argv.data(), environ);
  }
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("start ", request.argv[0]));

  // Nobody else reaps this child, so the pid is still its own.
  UniqueFd pidfd(PidfdOpen(pid));
  if (!pidfd) {
    const int open_error = errno;
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return absl::ErrnoToStatus(open_error, "pidfd_open (needs Linux 5.4 or newer)");
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, std::move(pidfd)));
}

ChildProcess::~ChildProcess() {
  if (reaped_) return;
  Kill();
  Reap(absl::Seconds(10));
}

void ChildProcess::Kill() const { PidfdKill(pidfd_.get()); }

std::optional<std::string> ChildProcess::Reap(absl::Duration timeout) {
  if (reaped_) return "was reaped before";
  if (!WaitReadable(pidfd_.get(), timeout)) return std::nullopt;
  // The leader is a zombie until it is waited for, so its group's number cannot
  // have been given to somebody else.
  kill(-pid_, SIGKILL);
  siginfo_t info{};
  while (waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0) {
    if (errno == EINTR) continue;
    reaped_ = true;  // ECHILD: this process ignores SIGCHLD, the kernel reaped it
    return "ended (how is not known)";
  }
  reaped_ = true;
  if (info.si_code != CLD_EXITED) end_signal_ = info.si_status;
  return Describe(info);
}

}  // namespace belfry::cards
