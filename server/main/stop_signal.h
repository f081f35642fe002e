// When to end, and how fast.
#ifndef BELFRY_SERVER_MAIN_STOP_SIGNAL_H_
#define BELFRY_SERVER_MAIN_STOP_SIGNAL_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace belfry {

// Blocks SIGTERM and SIGINT for the calling thread and those it starts later,
// and ignores SIGPIPE. Call it before the first thread is started.
void BlockStopSignals();

// Waits for SIGTERM and SIGINT in a thread of its own, so that a second signal
// is heard whatever the main thread does. Thread-safe.
class StopSignal {
 public:
  // 'second' is called from the thread when a signal comes after the stop was
  // asked for; it need not return.
  explicit StopSignal(std::function<void()> second);
  ~StopSignal();

  // As the first signal would; 'why' is for the log. Returns at once.
  void Request(const std::string& why);

  // Blocks until a stop is asked for; why.
  std::string Wait();

 private:
  void Run();

  const std::function<void()> second_;
  int signals_ = -1;  // signalfd
  int end_ = -1;      // eventfd
  absl::Mutex mutex_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  std::string why_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace belfry

#endif  // BELFRY_SERVER_MAIN_STOP_SIGNAL_H_
