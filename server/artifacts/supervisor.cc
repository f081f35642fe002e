#include "server/artifacts/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/status/status.h"

namespace belfry::artifacts {
namespace {

constexpr size_t kStackBytes = 256 << 10;

// The supervisor's descriptors, after they have been moved.
constexpr int kControl = 3, kReport = 4, kFirstUnused = 5;

// Plain clone(2) with a copy of the memory, as fork, but it can make a namespace
// and does not run the handlers that libraries register for fork.
pid_t CloneCopy(int (*run)(void*), void* argument, int flags) {
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return -1;
  const pid_t pid = clone(run, static_cast<char*>(stack) + kStackBytes, SIGCHLD | flags, argument);
  const int saved = errno;
  munmap(stack, kStackBytes);  // the child has its own copy
  errno = saved;
  return pid;
}

void CloseFrom(int first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, static_cast<unsigned>(first), ~0u, 0u) == 0) return;
#endif
  rlimit limit;  // kernels before 5.9
  int end = 65536;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 1 << 20) {
    end = static_cast<int>(limit.rlim_cur);
  }
  for (int fd = first; fd < end; ++fd) close(fd);
}

// Moves the plan's descriptors to 0 … 4 and closes all others: a listener or a
// client's connection that stayed open here would outlive its close in belfryd.
bool TakeDescriptors(const SupervisorPlan& plan) {
  const int from[kFirstUnused] = {plan.stdin_fd, plan.stdout_fd, plan.stderr_fd, plan.control_fd,
                                  plan.report_fd};
  int high[kFirstUnused];
  for (int i = 0; i < kFirstUnused; ++i) {
    high[i] = fcntl(from[i], F_DUPFD, 64);
    if (high[i] < 0) return false;
  }
  for (int i = 0; i < kFirstUnused; ++i) {
    if (dup2(high[i], i) < 0) return false;
  }
  CloseFrom(kFirstUnused);
  return fcntl(kControl, F_SETFD, FD_CLOEXEC) == 0 && fcntl(kReport, F_SETFD, FD_CLOEXEC) == 0;
}

void ResetSignals() {
  struct sigaction standard;
  memset(&standard, 0, sizeof(standard));
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &standard, nullptr);
}

void Report(int32_t kind, int32_t value) {
  const SupervisorReport report = {kind, value};
  while (write(kReport, &report, sizeof(report)) < 0 && errno == EINTR) {
  }
}

void WriteText(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, text, strlen(text)) < 0) {
    // Best effort: a kernel without it serves as well.
  }
  close(fd);
}

void YieldToServing() {
  setpriority(PRIO_PROCESS, 0, 19);
  sched_param parameter;
  memset(&parameter, 0, sizeof(parameter));
  sched_setscheduler(0, SCHED_BATCH, &parameter);
#ifdef SYS_ioprio_set
  constexpr int kWhoProcess = 1, kIdle = 3 << 13;
  syscall(SYS_ioprio_set, kWhoProcess, 0, kIdle);
#endif
}

// The command's process, up to exec.
int RunCommand(void* argument) {
  const auto& plan = *static_cast<const SupervisorPlan*>(argument);
  // Its group gets its own session: a terminal's Ctrl-C is for belfryd alone.
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (plan.low_priority) YieldToServing();
  // When memory runs out, a compile goes before the service.
  WriteText("/proc/self/oom_score_adj", "1000");
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (plan.data_limit_bytes != 0) {
    const rlimit data = {plan.data_limit_bytes, plan.data_limit_bytes};
    setrlimit(RLIMIT_DATA, &data);
  }
  if (chdir(plan.folder) == 0) {
    execve(plan.argv[0], const_cast<char* const*>(plan.argv), const_cast<char* const*>(plan.env));
  }
  Report(SupervisorReport::kCannotStart, errno);
  _exit(127);
}

// Sends SIGKILL to each direct child; false when they cannot be listed.
bool KillChildren() {
  const int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char buffer[4096];
  pid_t pid = 0;
  ssize_t n;
  while ((n = read(fd, buffer, sizeof(buffer))) > 0) {
    for (ssize_t i = 0; i < n; ++i) {
      if (buffer[i] >= '0' && buffer[i] <= '9') {
        pid = pid * 10 + (buffer[i] - '0');
      } else if (pid > 0) {
        kill(pid, SIGKILL);
        pid = 0;
      }
    }
  }
  close(fd);
  return true;
}

// Until nothing is left. When a child dies, its children become ours (subreaper),
// so each round reaches one generation deeper.
void KillAll(pid_t command) {
  if (getpid() == 1) {
    // Of a namespace: that means everybody else in it. The kernel waits for
    // them before our own end is seen. (/proc would name them by the numbers
    // of the namespace outside.)
    kill(-1, SIGKILL);
    return;
  }
  kill(-command, SIGKILL);
  kill(command, SIGKILL);
  for (;;) {
    const bool listed = KillChildren();
    // Without a list, only what is dead already is waited for.
    const pid_t gone = waitpid(-1, nullptr, listed ? 0 : WNOHANG);
    if (gone < 0 && errno == EINTR) continue;
    if (gone <= 0) return;
  }
}

// Waits for the command to end or the control pipe to close.
void Watch(pid_t command, int signals) {
  pollfd polled[2] = {{kControl, POLLIN, 0}, {signals, POLLIN, 0}};
  for (;;) {
    if (poll(polled, 2, -1) < 0 && errno != EINTR) break;
    if (polled[0].revents != 0) {
      KillAll(command);
      Report(SupervisorReport::kKilled, 0);
      return;
    }
    signalfd_siginfo info;
    if (read(signals, &info, sizeof(info)) < 0) {
      // EAGAIN: nothing yet
    }
    for (;;) {
      int status;
      const pid_t gone = waitpid(-1, &status, WNOHANG);
      if (gone <= 0) break;
      if (gone != command) continue;  // an orphan that ended by itself
      KillAll(command);
      Report(SupervisorReport::kEnded, status);
      return;
    }
  }
  KillAll(command);
}

int Supervise(void* argument) {
  auto& plan = *static_cast<SupervisorPlan*>(argument);
  if (!TakeDescriptors(plan)) _exit(1);
  ResetSignals();
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_NAME, "belfry-compile");
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_SETMASK, &child, nullptr);
  const int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  const pid_t command = signals < 0 ? -1 : CloneCopy(RunCommand, argument, 0);
  if (command < 0) {
    Report(SupervisorReport::kCannotStart, errno);
    _exit(1);
  }
  // The command's ends: their readers must see them close.
  close(0);
  close(1);
  close(2);
  Watch(command, signals);
  _exit(0);
}

}  // namespace

absl::StatusOr<Supervisor> StartSupervisor(const SupervisorPlan& plan) {
  // A signal meant for belfryd must not run its handler in the copy.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  void* argument = const_cast<SupervisorPlan*>(&plan);
  Supervisor supervisor;
  if (plan.try_namespace) supervisor.pid = CloneCopy(Supervise, argument, CLONE_NEWPID);
  supervisor.has_namespace = supervisor.pid > 0;
  if (supervisor.pid < 0) supervisor.pid = CloneCopy(Supervise, argument, 0);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (supervisor.pid < 0) return absl::ErrnoToStatus(error, "cannot start a process");
  return supervisor;
}

}  // namespace belfry::artifacts
