// The requests of one served version that wait for a card.
#ifndef BELFRY_SERVER_SCHEDULING_MODEL_QUEUE_H_
#define BELFRY_SERVER_SCHEDULING_MODEL_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "device/manifest/manifest.h"
#include "server/base/clock.h"
#include "server/cards/card.h"
#include "server/scheduling/batch_policy.h"
#include "server/scheduling/job.h"
#include "server/telemetry/model_metrics.h"

namespace belfry::scheduling {

struct QueueOptions {
  std::string model;
  std::string version;
  Signature signature;
  cards::ExecutableId executable = 0;
  BatchLimits limits;
  // Whether requests may be joined at all (signature.batchable and wanted).
  bool join = false;
  // Sizes to which a symbol's value is rounded up, by symbol; ascending.
  std::map<std::string, std::vector<int64_t>> buckets;
  int64_t max_queue = 8192;
  uint32_t default_priority = 2;
  MonoNs default_deadline = kNever;  // from acceptance
  MonoNs watchdog = 30'000'000'000;
  std::map<std::string, std::vector<std::string>> labels;  // classification
  std::shared_ptr<telemetry::ModelMetrics> metrics;
};

// Some rows of a job in the queue.
struct Entry {
  std::shared_ptr<Job> job;
  WaitingRequest order;
  MonoNs enqueued = 0;
  int64_t next_row = 0;   // first row that waits
  int64_t end_row = 0;    // one past the last
  int retries = 0;        // runs that were lost with a card
  int avoid_card = -1;    // where it was lost
  bool alone = false;     // never joined with others
  int64_t rows() const { return end_row - next_row; }
};

// Rows of a job in a batch.
struct Part {
  std::shared_ptr<Job> job;
  int64_t first_row = 0;
  int64_t rows = 0;
  int retries = 0;
  bool alone = false;
};

struct Taken {
  std::vector<Part> parts;
  int64_t rows = 0;
};

// Thread-safe. One mutex, held for some hundred nanoseconds; no payload is
// touched under it. A job that leaves the queue without a card (expired,
// cancelled, closed) is answered by the caller of the method that returns it.
class ModelQueue {
 public:
  explicit ModelQueue(QueueOptions options);
  ~ModelQueue();

  const QueueOptions& options() const { return options_; }
  const std::string& model() const { return options_.model; }
  const std::string& version() const { return options_.version; }
  telemetry::ModelMetrics& metrics() const { return *options_.metrics; }

  // RESOURCE_EXHAUSTED when full (with the limit), UNAVAILABLE once closed.
  absl::Status Push(std::shared_ptr<Job> job, MonoNs now);
  // Rows that a lost or failed batch gives back; in front, never refused.
  // Whoever was answered meanwhile is skipped.
  void PushBack(std::vector<Part> parts, int lost_on_card, bool alone, MonoNs now);

  // The next batch for this card, empty if nothing may start there now. 'room'
  // tells how many rows of this job's shape fit a slot of the card.
  Taken Take(int card, bool other_cards, MonoNs now,
             const std::function<int64_t(const Job&)>& room);

  // What a scheduler needs to choose among models; nullopt if nothing may
  // start now. One atomic load when the queue is empty.
  std::optional<ModelView> View(MonoNs now) const;
  // The next instant at which something must be done (a deadline passes, a
  // delayed batch becomes ready); kNever if none.
  MonoNs NextEvent() const;

  // Takes the job's waiting rows out. True if it had any and nothing of it runs
  // or ran: then it never reached a card.
  bool Remove(const std::shared_ptr<Job>& job);
  std::vector<std::shared_ptr<Job>> RemoveExpired(MonoNs now);
  // Everything that waits, once the queue is closed for good.
  std::vector<std::shared_ptr<Job>> RemoveAll();

  // No Push succeeds any more; they get 'why'. What waits stays.
  void Close(absl::Status why);
  // Waits until every accepted job has been answered.
  bool WaitIdle(absl::Duration timeout);
  // Called when a job of this queue has been answered.
  void JobEnded();

  // Fair shares: adds card seconds; see batch_policy.h.
  void AddConsumed(double seconds);
  double consumed() const { return consumed_.load(std::memory_order_relaxed); }

 private:
  struct Urgency {
    bool operator()(const Entry* a, const Entry* b) const;
  };
  struct Group {
    std::set<Entry*, Urgency> entries;
    int64_t rows = 0;
  };

  void Insert(std::unique_ptr<Entry> entry, const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const QueueOptions options_;
  mutable absl::Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  std::atomic<double> consumed_{0};
};

}  // namespace belfry::scheduling

#endif  // BELFRY_SERVER_SCHEDULING_MODEL_QUEUE_H_
