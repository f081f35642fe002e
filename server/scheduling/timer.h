// One thread that calls back at given instants: deadlines of waiting requests
// and batches that were delayed.
#ifndef BELFRY_SERVER_SCHEDULING_TIMER_H_
#define BELFRY_SERVER_SCHEDULING_TIMER_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/base/clock.h"

namespace belfry::scheduling {

// Thread-safe. 'work' runs on the timer's thread only: it does what is due and
// returns the next instant at which it wants to run (kNever: when woken).
class Timer {
 public:
  Timer(const Clock* clock, std::function<MonoNs(MonoNs now)> work);
  ~Timer();

  // Something is due at 'when'. One atomic load unless that is earlier than
  // what the timer waits for.
  void Arm(MonoNs when);

 private:
  void Run();

  const Clock* const clock_;
  const std::function<MonoNs(MonoNs)> work_;
  std::atomic<MonoNs> next_{kNever};
  absl::Mutex mutex_;
  bool rearmed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace belfry::scheduling

#endif  // BELFRY_SERVER_SCHEDULING_TIMER_H_
