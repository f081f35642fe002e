#include "server/main/stop_signal.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>

namespace belfry {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A peer that closes its end is an error of one write, not of the process.
  signal(SIGPIPE, SIG_IGN);
}

StopSignal::StopSignal(std::function<void()> second) : second_(std::move(second)) {
  const sigset_t set = StopSignals();
  signals_ = signalfd(-1, &set, SFD_CLOEXEC);
  end_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { Run(); });
}

StopSignal::~StopSignal() {
  const uint64_t one = 1;
  // Cannot fail: the counter is far from its limit.
  [[maybe_unused]] const ssize_t written = write(end_, &one, sizeof one);
  thread_.join();
  close(signals_);
  close(end_);
}

void StopSignal::Request(const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (requested_) return;
  requested_ = true;
  why_ = why;
}

std::string StopSignal::Wait() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&requested_));
  return why_;
}

void StopSignal::Run() {
  pollfd waits[2] = {{signals_, POLLIN, 0}, {end_, POLLIN, 0}};
  while (true) {
    if (poll(waits, 2, -1) < 0) continue;  // EINTR
    if (waits[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof info) != sizeof info) continue;
    bool second = false;
    {
      absl::MutexLock lock(&mutex_);
      second = requested_;
    }
    if (second) {
      second_();
    } else {
      Request(info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
    }
  }
}

}  // namespace belfry
