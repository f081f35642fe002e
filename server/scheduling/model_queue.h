// The requests of one served version that wait for a card.
#ifndef BELFRY_SERVER_SCHEDULING_MODEL_QUEUE_H_
#define BELFRY_SERVER_SCHEDULING_MODEL_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
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
  int64_t max_answer_bytes = 2047ll << 20;  // tensors of one answer
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
  MonoNs enqueued = 0;    // or when rows of it were last taken
  int64_t next_row = 0;   // first row that waits
  int64_t end_row = 0;    // one past the last
  int retries = 0;        // runs that were lost with a card
  int avoid_card = -1;    // where it was lost
  bool alone = false;     // never joined with others
  std::string group;      // key of the group it waits in
  std::list<Entry*>::iterator by_age;
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

  // RESOURCE_EXHAUSTED when full (with the limit); the status given to Close
  // once closed.
  absl::Status Push(std::shared_ptr<Job> job, MonoNs now);
  // Rows that a lost or failed batch gives back; in front, never refused, also
  // when closed. Jobs that were answered meanwhile are skipped.
  void PushBack(std::vector<Part> parts, int lost_on_card, bool alone, MonoNs now);

  // How many rows of a job's shape fit a slot of the card at hand.
  using RoomFn = absl::FunctionRef<int64_t(const Job&)>;
  // The next batch for card number 'card'; empty if nothing may start there
  // now. Rows that were lost on this card are left to the others if
  // 'other_cards' says that there are any.
  Taken Take(int card, bool other_cards, MonoNs now, RoomFn room);

  // What a scheduler needs to choose among models; nullopt if nothing may
  // start on this card now. One atomic load when the queue is empty.
  std::optional<ModelView> View(int card, bool other_cards, MonoNs now) const;
  // The next instant at which something must be done though nothing arrives (a
  // deadline passes, a delayed batch becomes ready); kNever if none.
  MonoNs NextEvent(MonoNs now) const;
  bool empty() const { return depth_.load(std::memory_order_relaxed) == 0; }

  // Takes the job's waiting rows out. True if it had any.
  bool Remove(Job& job);
  // Takes out every job with waiting rows whose deadline has passed. (A job all
  // of whose rows run already may still make it.)
  std::vector<std::shared_ptr<Job>> RemoveExpired(MonoNs now);
  std::vector<std::shared_ptr<Job>> RemoveAll();

  // No Push succeeds any more; they get 'why'. What waits stays.
  void Close(absl::Status why);
  bool closed() const;
  // Waits until every accepted job has been answered; false at the timeout.
  bool WaitIdle(absl::Duration timeout);
  // A job that Push accepted has been answered.
  void JobEnded();

  // Fair shares (start-time fair queueing): the account of card seconds used.
  // Charge brings it up to 'floor' (who was away does not catch up), adds what
  // the next batch will take by the average of those before, and returns that
  // estimate; Settle puts the true figure in its place.
  double Charge(double floor);
  void Settle(double estimate, double seconds);
  double consumed() const { return consumed_.load(std::memory_order_relaxed); }

  // Bit i: card number i holds the executable. Kept by the dispatcher.
  std::atomic<uint64_t>& cards() { return cards_; }
  // Since when none of them is READY; 0: one is. Kept by the dispatcher.
  std::atomic<MonoNs>& no_card_since() { return no_card_since_; }

 private:
  struct Urgency {
    bool operator()(const Entry* a, const Entry* b) const {
      return MoreUrgent(a->order, b->order);
    }
  };
  struct Deadline {
    bool operator()(const Entry* a, const Entry* b) const {
      if (a->order.deadline != b->order.deadline) return a->order.deadline < b->order.deadline;
      return a->order.arrival < b->order.arrival;
    }
  };
  struct Group {
    absl::btree_set<Entry*, Urgency> by_urgency;
    std::list<Entry*> by_age;  // oldest first; retried rows in front
    int64_t rows = 0;
    bool alone = false;        // its requests are run one by one
    GroupView View() const;
    MonoNs ReadyAt(const BatchLimits& limits) const;
    bool HasWorkFor(int card, bool other_cards) const;
  };
  using Groups = absl::flat_hash_map<std::string, std::unique_ptr<Group>>;

  void Insert(std::unique_ptr<Entry> entry, bool front) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<Entry> Extract(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes up to 'rows' rows off the entry, the whole entry out of the queue if
  // nothing is left of it.
  Part Cut(Entry* entry, int64_t rows, MonoNs now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Rows of a batch that 'head' leads.
  int64_t RowsToTake(const Group& group, const Entry& head, RoomFn room) const;
  Group* Choose(int card, bool other_cards, MonoNs now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteAge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const QueueOptions options_;
  mutable absl::Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  Groups groups_ ABSL_GUARDED_BY(mutex_);
  absl::btree_set<Entry*, Deadline> by_deadline_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_arrival_ ABSL_GUARDED_BY(mutex_) = 1ull << 32;
  uint64_t next_retry_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t accepted_ ABSL_GUARDED_BY(mutex_) = 0;  // pushed and not yet ended
  std::atomic<int64_t> depth_{0};                 // entries
  std::atomic<double> consumed_{0};
  std::atomic<double> average_{0};                // card seconds of a batch
  std::atomic<uint64_t> cards_{0};
  std::atomic<MonoNs> no_card_since_{0};
};

}  // namespace belfry::scheduling

#endif  // BELFRY_SERVER_SCHEDULING_MODEL_QUEUE_H_
