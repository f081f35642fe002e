// Holds whoever comes by until it is opened; for tests.
#ifndef BELFRY_SERVER_SERVING_GATE_H_
#define BELFRY_SERVER_SERVING_GATE_H_

#include <functional>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace belfry::serving {

// Thread-safe.
class Gate {
 public:
  // Waits until it is open, or until 'given_up' says so; true if it was opened.
  bool Pass(const std::function<bool()>& given_up = nullptr) {
    absl::MutexLock lock(&mutex_);
    ++arrived_;
    while (!open_) {
      if (given_up && given_up()) return false;
      const auto is_open = [this]() { return open_; };
      mutex_.AwaitWithTimeout(absl::Condition(&is_open),
                              given_up ? absl::Milliseconds(5) : absl::InfiniteDuration());
    }
    return true;
  }
  void Open() {
    absl::MutexLock lock(&mutex_);
    open_ = true;
  }
  // Waits until so many have come.
  bool AwaitArrivals(int count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return arrived_ >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(30));
  }

 private:
  absl::Mutex mutex_;
  bool open_ = false;
  int arrived_ = 0;
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_GATE_H_
