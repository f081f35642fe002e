#include "server/artifacts/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/artifacts/process_tree.h"
#include "server/artifacts/supervisor.h"

namespace belfry::artifacts {
namespace {

using Reason = ChildOutcome::Reason;

constexpr absl::Duration kTick = absl::Milliseconds(50);
constexpr absl::Duration kMemoryTick = absl::Milliseconds(250);
// The supervisor needs a moment to kill; if it does not end, it is killed itself.
constexpr absl::Duration kKillGrace = absl::Seconds(10);

struct Pipe {
  int read_end = -1, write_end = -1;
  ~Pipe() {
    CloseRead();
    CloseWrite();
  }
  bool Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
  void CloseRead() { Close(read_end); }
  void CloseWrite() { Close(write_end); }
  static void Close(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
};

std::vector<const char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

// One run. Owns the pipes and the supervisor's process until it has been waited
// for.
class Run {
 public:
  Run(const ChildSpec& spec, const ChildCallbacks& callbacks)
      : spec_(spec), callbacks_(callbacks), start_(absl::Now()) {}

  absl::Status Start();
  ChildOutcome Finish();

 private:
  void Kill(Reason why);
  void CheckLimits();
  void Step();
  void Drain(Pipe& pipe, const std::function<void(std::string_view)>& sink);
  bool ReadReport(SupervisorReport& report);
  void Reap();
  ChildOutcome Outcome(const SupervisorReport& report, bool reported) const;

  const ChildSpec& spec_;
  const ChildCallbacks& callbacks_;
  const absl::Time start_;
  Pipe out_, err_, control_, report_;
  Supervisor supervisor_;
  bool killed_ = false;
  Reason why_ = Reason::kExited;
  absl::Time killed_at_ = absl::InfiniteFuture(), next_memory_ = absl::InfinitePast();
  uint64_t peak_ = 0;
};

absl::Status Run::Start() {
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  auto closer = absl::MakeCleanup([null] {
    if (null >= 0) close(null);
  });
  if (null < 0 || !out_.Open() || !err_.Open() || !control_.Open() || !report_.Open()) {
    return absl::ErrnoToStatus(errno, "cannot open pipes for a child process");
  }
  const std::vector<const char*> argv = Pointers(spec_.argv), env = Pointers(spec_.env);
  SupervisorPlan plan = {};
  plan.argv = argv.data();
  plan.env = env.data();
  plan.folder = spec_.folder.c_str();
  plan.stdin_fd = null;
  plan.stdout_fd = out_.write_end;
  plan.stderr_fd = err_.write_end;
  plan.control_fd = control_.read_end;
  plan.report_fd = report_.write_end;
  plan.data_limit_bytes = spec_.memory_bytes;
  plan.low_priority = spec_.low_priority;
  plan.try_namespace = spec_.try_namespace;
  absl::StatusOr<Supervisor> supervisor = StartSupervisor(plan);
  if (!supervisor.ok()) return supervisor.status();
  supervisor_ = *supervisor;
  out_.CloseWrite();
  err_.CloseWrite();
  control_.CloseRead();
  report_.CloseWrite();
  fcntl(out_.read_end, F_SETFL, O_NONBLOCK);
  fcntl(err_.read_end, F_SETFL, O_NONBLOCK);
  return absl::OkStatus();
}

void Run::Kill(Reason why) {
  if (killed_) return;
  killed_ = true;
  why_ = why;
  killed_at_ = absl::Now();
  control_.CloseWrite();
  if (supervisor_.has_namespace) kill(supervisor_.pid, SIGKILL);
}

void Run::CheckLimits() {
  const absl::Time now = absl::Now();
  if (killed_) {
    if (now - killed_at_ > kKillGrace) kill(supervisor_.pid, SIGKILL);
    return;
  }
  if (callbacks_.cancelled && callbacks_.cancelled()) {
    Kill(Reason::kCancelled);
  } else if (now - start_ > spec_.timeout) {
    Kill(Reason::kTimeout);
  } else if (spec_.memory_bytes != 0 && now >= next_memory_) {
    const uint64_t used = TreeAnonymousBytes(supervisor_.pid);
    peak_ = std::max(peak_, used);
    next_memory_ = now + kMemoryTick;
    if (used > spec_.memory_bytes) Kill(Reason::kMemory);
  }
}

void Run::Drain(Pipe& pipe, const std::function<void(std::string_view)>& sink) {
  char buffer[16384];
  for (int i = 0; i < 64 && pipe.read_end >= 0; ++i) {  // bounded: the limits want a look too
    const ssize_t n = read(pipe.read_end, buffer, sizeof(buffer));
    if (n > 0) {
      if (sink) sink(std::string_view(buffer, static_cast<size_t>(n)));
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      pipe.CloseRead();
    } else {
      return;
    }
  }
}

void Run::Step() {
  pollfd polled[3] = {{out_.read_end, POLLIN, 0},
                      {err_.read_end, POLLIN, 0},
                      {report_.read_end, POLLIN, 0}};
  poll(polled, 3, static_cast<int>(absl::ToInt64Milliseconds(kTick)));
  Drain(out_, callbacks_.on_stdout);
  Drain(err_, callbacks_.on_stderr);
  CheckLimits();
}

// True when the supervisor has said its word or is gone; 'kind' is 0 then.
bool Run::ReadReport(SupervisorReport& report) {
  pollfd polled = {report_.read_end, POLLIN, 0};
  if (poll(&polled, 1, 0) <= 0) return false;
  ssize_t n;
  do {
    n = read(report_.read_end, &report, sizeof(report));
  } while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(sizeof(report))) report = {};
  return true;
}

void Run::Reap() {
  int status;
  while (waitpid(supervisor_.pid, &status, 0) < 0 && errno == EINTR) {
  }
}

ChildOutcome Run::Finish() {
  SupervisorReport report = {};
  while (!ReadReport(report)) Step();
  if (report.kind == SupervisorReport::kCannotStart) {
    // The command's process says so itself; the supervisor follows.
    control_.CloseWrite();
  }
  Reap();
  // All writers are gone: what is in the pipes is all there is.
  while (out_.read_end >= 0) Drain(out_, callbacks_.on_stdout);
  while (err_.read_end >= 0) Drain(err_, callbacks_.on_stderr);
  ChildOutcome outcome = Outcome(report, report.kind != 0);
  outcome.peak_memory_bytes = peak_;
  return outcome;
}

ChildOutcome Run::Outcome(const SupervisorReport& report, bool reported) const {
  ChildOutcome outcome;
  if (killed_ && report.kind != SupervisorReport::kEnded) {
    outcome.reason = why_;
  } else if (report.kind == SupervisorReport::kCannotStart) {
    outcome.reason = Reason::kCannotStart;
    outcome.value = report.value;
  } else if (!reported) {
    outcome.reason = Reason::kSignalled;  // somebody killed the supervisor
    outcome.value = SIGKILL;
  } else if (WIFSIGNALED(report.value)) {
    outcome.reason = Reason::kSignalled;
    outcome.value = WTERMSIG(report.value);
  } else {
    outcome.value = WEXITSTATUS(report.value);
  }
  return outcome;
}

}  // namespace

absl::StatusOr<ChildOutcome> RunChild(const ChildSpec& spec, const ChildCallbacks& callbacks) {
  if (spec.argv.empty()) return absl::InvalidArgumentError("no command");
  Run run(spec, callbacks);
  if (absl::Status s = run.Start(); !s.ok()) return s;
  return run.Finish();
}

}  // namespace belfry::artifacts
