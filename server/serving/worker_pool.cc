#include "server/serving/worker_pool.h"

#include <algorithm>
#include <utility>

namespace belfry::serving {

WorkerPool::WorkerPool(int threads) {
  absl::MutexLock lock(&join_mutex_);
  for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { Run(); });
}

void WorkerPool::Post(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  if (!stopped_) tasks_.push_back(std::move(task));
}

void WorkerPool::Stop() {
  std::deque<std::function<void()>> dropped;  // destroyed without the lock
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    dropped.swap(tasks_);
  }
  absl::MutexLock lock(&join_mutex_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerPool::Run() {
  const auto work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopped_ || !tasks_.empty();
  };
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&work));
      if (stopped_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace belfry::serving
