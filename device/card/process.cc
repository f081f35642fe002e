#include "device/card/process.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace belfry::card {
namespace {

constexpr int kGiveWayNice = 10;

}  // namespace

void SetUpProcess() {
  for (const int signal_number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) {
    signal(signal_number, SIG_IGN);
  }
  // Should the parent have died before this call, the closed control socket
  // tells.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

absl::Status RunOnCores(const std::vector<int>& cores) {
  if (cores.empty()) return absl::OkStatus();
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("--cores ", absl::StrJoin(cores, ",")));
}

void GiveWay() {
  // Linux keeps the nice value per thread. For good, since a process without
  // privileges cannot raise it again.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kGiveWayNice);
}

void ExitWhenClosed(int fd) {
  std::thread([fd] {
    pthread_setname_np(pthread_self(), "card-watch");
    for (;;) {
      pollfd p{fd, POLLRDHUP, 0};
      const int n = poll(&p, 1, -1);
      if (n > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0) ExitNow(0);
    }
  }).detach();
}

void ExitNow(int code) {
  fflush(nullptr);
  _exit(code);
}

}  // namespace belfry::card
