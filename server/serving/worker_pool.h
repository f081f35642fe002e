// A few threads that run tasks in the order in which they came.
#ifndef BELFRY_SERVER_SERVING_WORKER_POOL_H_
#define BELFRY_SERVER_SERVING_WORKER_POOL_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace belfry::serving {

// Thread-safe.
class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool() { Stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Dropped once Stop has been called.
  void Post(std::function<void()> task);
  // Drops what has not begun and waits for what has. Not from a task.
  void Stop();

 private:
  void Run();

  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Mutex join_mutex_;  // held while the threads are joined
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(join_mutex_);
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_WORKER_POOL_H_
