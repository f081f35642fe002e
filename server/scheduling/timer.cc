#include "server/scheduling/timer.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

namespace belfry::scheduling {

Timer::Timer(const Clock* clock, std::function<MonoNs(MonoNs)> work)
    : clock_(clock), work_(std::move(work)), thread_([this] { Run(); }) {}

Timer::~Timer() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void Timer::Arm(MonoNs when) {
  // Whoever lowers next_ wakes the thread. The thread itself sets next_ to
  // kNever before it looks at the queues, so an Arm that comes while it looks
  // is never lost.
  MonoNs next = next_.load(std::memory_order_seq_cst);
  while (when < next) {
    if (next_.compare_exchange_weak(next, when, std::memory_order_seq_cst)) {
      absl::MutexLock lock(&mutex_);
      rearmed_ = true;
      return;
    }
  }
}

void Timer::Run() {
  pthread_setname_np(pthread_self(), "belfry-timer");
  while (true) {
    next_.store(kNever, std::memory_order_seq_cst);
    const MonoNs wanted = work_(clock_->Now());
    MonoNs next = next_.load(std::memory_order_seq_cst);
    while (wanted < next && !next_.compare_exchange_weak(next, wanted)) {
    }
    const MonoNs until = std::min(wanted, next);
    absl::MutexLock lock(&mutex_);
    if (stop_) return;
    const auto woken = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stop_ || rearmed_;
    };
    if (until == kNever) {
      mutex_.Await(absl::Condition(&woken));
    } else {
      const MonoNs wait = std::max<MonoNs>(0, until - clock_->Now());
      mutex_.AwaitWithTimeout(absl::Condition(&woken), absl::Nanoseconds(wait));
    }
    rearmed_ = false;
    if (stop_) return;
  }
}

}  // namespace belfry::scheduling
