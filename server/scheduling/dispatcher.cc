#include "server/scheduling/dispatcher.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "device/channel/text.h"
#include "server/cards/pool.h"
#include "server/scheduling/answer.h"
#include "server/scheduling/batch.h"
#include "server/scheduling/timer.h"
#include "server/telemetry/log.h"

namespace belfry::scheduling {
namespace {

using cards::BatchOutcome;
using cards::BatchResult;
using cards::Card;
using cards::CardState;
using cards::Slot;
using QueuePtr = std::shared_ptr<ModelQueue>;

static_assert(cards::kMaxCards <= 64, "bits of ModelQueue::cards()");

// Payloads above this are copied by the card's own thread, so that the thread
// that reads from the network goes on reading.
constexpr size_t kInlineCopyBytes = 256 << 10;

// A model none of whose cards is READY keeps what waits for so long: the time
// of a restart. Then requests are refused as UNAVAILABLE.
constexpr MonoNs kNoCardGrace = 10'000'000'000;

size_t PayloadBytes(const Job& job) {
  size_t bytes = 0;
  for (const auto& input : job.request.inputs) bytes += input.payload.size;
  return bytes;
}

absl::Status NoCardLeft(const ModelQueue& queue) {
  return absl::UnavailableError(absl::StrCat("model '", queue.model(), "' version ",
                                             queue.version(), " is on no card any more"));
}

// A client whose time is up cancels by its own clock, which started before the
// request was read here: a cancellation in the last tenth of the time (or the
// last 5 ms) is the deadline.
bool IsDeadline(const Job& job, MonoNs now) {
  if (job.deadline == kNever) return false;
  const MonoNs slack = std::max<MonoNs>(5'000'000, (job.deadline - job.accepted) / 10);
  return now >= job.deadline - slack;
}

double Seconds(MonoNs ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

// What the dispatcher knows of one card.
struct CardSeat {
  Card* card = nullptr;
  // Incremented whenever something that this card could run may have become
  // available; see Impl::Serve.
  std::atomic<uint64_t> epoch{0};
  // Serialises the choice of batches for this card.
  absl::Mutex mutex;
  std::vector<QueuePtr> queues ABSL_GUARDED_BY(mutex);
};

class Dispatcher::Impl {
 public:
  explicit Impl(const Clock* clock)
      : clock_(clock), timer_(clock, [this](MonoNs now) { return OnTimer(now); }) {}

  void SetModelListener(ModelListener* listener) { listener_.store(listener); }

  void SetCards(std::vector<Card*> cards) {
    auto seats = std::make_unique<Seats>();
    for (Card* card : cards) {
      seats->push_back(std::make_unique<CardSeat>());
      seats->back()->card = card;
    }
    seats_owner_ = std::move(seats);
    seats_.store(seats_owner_.get(), std::memory_order_release);
  }

  void Attach(const QueuePtr& queue, Card* card) {
    CardSeat* seat = SeatOf(*card);
    if (seat == nullptr) return;
    {
      absl::MutexLock lock(&seat->mutex);
      if (std::find(seat->queues.begin(), seat->queues.end(), queue) == seat->queues.end()) {
        seat->queues.push_back(queue);
      }
    }
    queue->cards().fetch_or(1ull << card->index());
    {
      absl::MutexLock lock(&queues_mutex_);
      if (std::find(queues_.begin(), queues_.end(), queue) == queues_.end()) {
        queues_.push_back(queue);
      }
    }
    Wake(*seat);
  }

  void Detach(const QueuePtr& queue, Card* card) {
    if (CardSeat* seat = SeatOf(*card)) DetachSeat(queue, *seat);
    Reoffer(*queue);
  }

  void DetachAll(const QueuePtr& queue) {
    if (const Seats* seats = seats_.load(std::memory_order_acquire)) {
      for (const auto& seat : *seats) DetachSeat(queue, *seat);
    }
    {
      absl::MutexLock lock(&queues_mutex_);
      queues_.erase(std::remove(queues_.begin(), queues_.end(), queue), queues_.end());
    }
    // Nobody looks after what still waits: see Recover.
    FailAll(queue, NoCardLeft(*queue));
  }

  absl::Status Submit(std::shared_ptr<Job> job);
  void Cancel(const std::shared_ptr<Job>& job);
  void FailAll(const QueuePtr& queue, const absl::Status& why) {
    for (const auto& job : queue->RemoveAll()) FinishError(*job, why, clock_->Now());
  }

  void OnBatchDone(Card& card, Slot slot, void* tag, BatchResult result);
  void OnTurn(Card& card) {
    CardSeat* seat = SeatOf(card);
    if (seat == nullptr) return;
    {
      absl::MutexLock lock(&seat->mutex);
      for (const QueuePtr& queue : seat->queues) queue->no_card_since().store(0);
    }
    Wake(*seat);
  }
  // What was left to that card, or told to it alone, is offered to the others.
  void OnCardLost(Card& card) {
    for (const QueuePtr& queue : Queues()) Reoffer(*queue);
  }
  void OnResidentLost(Card& card, cards::ExecutableId id, const absl::Status& status) {
    if (ModelListener* listener = listener_.load()) {
      listener->OnResidencyLost(id, card.name(), status);
    }
  }

 private:
  using Seats = std::vector<std::unique_ptr<CardSeat>>;

  CardSeat* SeatOf(const Card& card) const {
    const Seats* seats = seats_.load(std::memory_order_acquire);
    const auto i = static_cast<size_t>(card.index());
    return seats != nullptr && i < seats->size() ? (*seats)[i].get() : nullptr;
  }

  // All cards have slots of one size.
  const Card* AnyCard() const {
    const Seats* seats = seats_.load(std::memory_order_acquire);
    return seats == nullptr || seats->empty() ? nullptr : seats->front()->card;
  }

  void DetachSeat(const QueuePtr& queue, CardSeat& seat) {
    queue->cards().fetch_and(~(1ull << seat.card->index()));
    absl::MutexLock lock(&seat.mutex);
    seat.queues.erase(std::remove(seat.queues.begin(), seat.queues.end(), queue),
                      seat.queues.end());
  }

  static constexpr int kSlots = static_cast<int>(channel::kSlots);

  std::vector<QueuePtr> Queues() {
    absl::MutexLock lock(&queues_mutex_);
    return queues_;
  }
  void Reoffer(ModelQueue& queue, bool by_card_thread = true) {
    const MonoNs now = clock_->Now();
    if (queue.empty()) return;
    AnyCardSoon(queue, now);
    timer_.Arm(queue.NextEvent(now));
    Offer(queue, by_card_thread);
  }
  // Cards of the queue that are READY.
  absl::InlinedVector<CardSeat*, 8> ReadySeats(ModelQueue& queue) const;
  bool AnyCardSoon(ModelQueue& queue, MonoNs now);
  void Offer(ModelQueue& queue, bool by_card_thread);
  void Serve(CardSeat& seat, int most);
  // Something has become available to this card.
  void Wake(CardSeat& seat) {
    seat.epoch.fetch_add(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    Serve(seat, kSlots);
  }
  std::unique_ptr<Batch> NextBatch(CardSeat& seat, MonoNs now);
  void Start(CardSeat& seat, Slot slot, std::unique_ptr<Batch> batch);
  void Complete(Batch& batch, const Card& card, const BatchResult& result, const Slot& slot);
  void Recover(Batch& batch, Card& card, const BatchResult& result);
  MonoNs OnTimer(MonoNs now);

  const Clock* const clock_;
  std::atomic<ModelListener*> listener_{nullptr};
  std::unique_ptr<Seats> seats_owner_;
  std::atomic<const Seats*> seats_{nullptr};
  absl::Mutex queues_mutex_;
  std::vector<QueuePtr> queues_ ABSL_GUARDED_BY(queues_mutex_);
  std::atomic<uint32_t> rotation_{0};
  // Account of the model served last: the virtual time of fair queueing.
  std::atomic<double> served_up_to_{0};
  Timer timer_;  // last: its thread uses the rest
};

absl::InlinedVector<CardSeat*, 8> Dispatcher::Impl::ReadySeats(ModelQueue& queue) const {
  absl::InlinedVector<CardSeat*, 8> ready;
  const Seats* seats = seats_.load(std::memory_order_acquire);
  if (seats == nullptr) return ready;
  const uint64_t mask = queue.cards().load(std::memory_order_acquire);
  for (const auto& seat : *seats) {
    if ((mask >> seat->card->index() & 1) != 0 && seat->card->state() == CardState::kReady) {
      ready.push_back(seat.get());
    }
  }
  return ready;
}

bool Dispatcher::Impl::AnyCardSoon(ModelQueue& queue, MonoNs now) {
  if (!ReadySeats(queue).empty()) {
    queue.no_card_since().store(0, std::memory_order_relaxed);
    return true;
  }
  MonoNs since = 0;
  if (queue.no_card_since().compare_exchange_strong(since, now)) {
    timer_.Arm(now + kNoCardGrace);
    return true;
  }
  return now - since < kNoCardGrace;
}

absl::Status Dispatcher::Impl::Submit(std::shared_ptr<Job> job) {
  const QueuePtr queue = job->queue;
  ModelQueue& q = *queue;
  const QueueOptions& options = q.options();
  const MonoNs now = clock_->Now();
  if (job->priority == 0) job->priority = options.default_priority;
  if (job->deadline == kNever && options.default_deadline != kNever) {
    job->deadline = now + options.default_deadline;
  }
  if (job->accepted == 0) job->accepted = now;
  if (job->deadline <= now) {
    q.metrics().expired_before_execution.Add();
    return absl::DeadlineExceededError("the deadline had passed when the request was read");
  }
  if (!AnyCardSoon(q, now)) {
    return absl::UnavailableError(
        absl::StrCat("no card is ready for model '", q.model(), "' version ", q.version()));
  }
  PlanPadding(job.get());
  if (const Card* card = AnyCard()) {
    const auto in = static_cast<int64_t>(card->input_capacity());
    const auto out = static_cast<int64_t>(card->output_capacity());
    if (absl::Status s = CheckFits(*job, in, out); !s.ok()) return s;
  }
  const bool large = PayloadBytes(*job) > kInlineCopyBytes;
  const MonoNs deadline = job->deadline;
  if (absl::Status s = q.Push(std::move(job), now); !s.ok()) return s;
  if (deadline != kNever) timer_.Arm(deadline);
  if (options.limits.delay > 0) timer_.Arm(now + options.limits.delay);
  Offer(q, large);
  return absl::OkStatus();
}

// Tells the cards that could run the queue that there is work. The idle first:
// a second batch on a busy card starts later than a first one elsewhere.
void Dispatcher::Impl::Offer(ModelQueue& queue, bool by_card_thread) {
  auto ready = ReadySeats(queue);
  for (CardSeat* seat : ready) seat->epoch.fetch_add(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const size_t n = ready.size();
  const size_t start = n > 1 ? rotation_.fetch_add(1, std::memory_order_relaxed) % n : 0;
  for (int busy = 0; busy < kSlots; ++busy) {
    for (size_t i = 0; i < n && !queue.empty(); ++i) {
      CardSeat* seat = ready[(start + i) % n];
      if (seat->card->slots_in_use() != busy) continue;
      if (by_card_thread) {
        // All of them: which comes first does not matter, and one that dies
        // before its turn must not be the only one that knows.
        seat->card->RequestTurn();
      } else {
        Serve(*seat, 1);
      }
    }
  }
}

// Starts up to 'most' batches on the card, until its slots are taken or nothing
// may start.
//
// Lock-free hand-over: whoever finds no free slot leaves, because the holder of
// a slot comes here after giving it back; a holder that found nothing to do
// looks at 'epoch' again after giving the slot back, so that work which arrived
// between its look and its release is not forgotten. (Both sides: write, full
// fence, read.)
void Dispatcher::Impl::Serve(CardSeat& seat, int most) {
  while (most > 0) {
    const uint64_t epoch = seat.epoch.load(std::memory_order_seq_cst);
    {
      Slot slot = seat.card->TryAcquireSlot();
      if (!slot) return;
      if (std::unique_ptr<Batch> batch = NextBatch(seat, clock_->Now())) {
        Start(seat, std::move(slot), std::move(batch));
        --most;
        continue;
      }
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (seat.epoch.load(std::memory_order_seq_cst) == epoch) return;
  }
}

std::unique_ptr<Batch> Dispatcher::Impl::NextBatch(CardSeat& seat, MonoNs now) {
  const auto in = static_cast<int64_t>(seat.card->input_capacity());
  const auto out = static_cast<int64_t>(seat.card->output_capacity());
  absl::MutexLock lock(&seat.mutex);
  absl::InlinedVector<ModelView, 8> views;
  absl::InlinedVector<const QueuePtr*, 8> owners;
  const double floor = served_up_to_.load(std::memory_order_relaxed);
  for (const QueuePtr& queue : seat.queues) {
    if (queue->empty()) continue;
    const bool others = ReadySeats(*queue).size() > 1;
    if (auto view = queue->View(seat.card->index(), others, now)) {
      view->consumed = std::max(view->consumed, floor);
      views.push_back(*view);
      owners.push_back(&queue);
    }
  }
  while (!views.empty()) {
    const int chosen = ChooseModel(views, now);
    const QueuePtr& queue = *owners[chosen];
    const bool others = ReadySeats(*queue).size() > 1;
    Taken taken = queue->Take(seat.card->index(), others, now,
                              [&](const Job& job) { return RoomFor(job, in, out); });
    if (!taken.parts.empty()) {
      auto batch = std::make_unique<Batch>(queue, std::move(taken), now);
      served_up_to_.store(views[chosen].consumed, std::memory_order_relaxed);
      batch->charged = queue->Charge(views[chosen].consumed);
      return batch;
    }
    views.erase(views.begin() + chosen);
    owners.erase(owners.begin() + chosen);
  }
  return nullptr;
}

void Dispatcher::Impl::Start(CardSeat& seat, Slot slot, std::unique_ptr<Batch> batch) {
  const QueuePtr queue = batch->queue();
  std::vector<Part> odd = batch->CopyIn(slot.input());
  if (!odd.empty()) queue->PushBack(std::move(odd), /*lost_on_card=*/-1, /*alone=*/true, clock_->Now());
  queue->metrics().copy_in_seconds.Observe(Seconds(clock_->Now() - batch->formed()));
  const cards::BatchCall call{.executable = queue->options().executable,
                              .inputs = batch->inputs(),
                              .watchdog_ns = queue->options().watchdog,
                              .tag = batch.get()};
  batch.release();  // OnBatchDone owns it from here
  seat.card->Submit(std::move(slot), call);
}

void Dispatcher::Impl::OnBatchDone(Card& card, Slot slot, void* tag, BatchResult result) {
  std::unique_ptr<Batch> batch(static_cast<Batch*>(tag));
  // A batch that was lost before it began has no start.
  const bool ran = result.start_ns > 0 && result.end_ns > result.start_ns;
  const double seconds = ran ? Seconds(result.end_ns - result.start_ns) : 0;
  batch->queue()->Settle(batch->charged, seconds);
  if (result.outcome == BatchOutcome::kOk) {
    Complete(*batch, card, result, slot);
  } else {
    Recover(*batch, card, result);
  }
  batch.reset();  // jobs may free their payloads before the next batch starts
  slot = Slot();
  if (CardSeat* seat = SeatOf(card)) Serve(*seat, kSlots);
}

void Dispatcher::Impl::Complete(Batch& batch, const Card& card, const BatchResult& result,
                                const Slot& slot) {
  telemetry::ModelMetrics& metrics = batch.queue()->metrics();
  const MonoNs begin = clock_->Now();
  const absl::Status checked = batch.CheckOutputs(result.outputs);
  std::vector<absl::Status> copied(batch.parts().size(), checked);
  int64_t row = 0;
  for (size_t i = 0; i < copied.size() && checked.ok(); ++i) {
    const Part& part = batch.parts()[i];
    if (!part.job->answered.load(std::memory_order_acquire)) {
      copied[i] = batch.CopyOut(part, row, result.outputs, slot.output());
    }
    row += part.rows;
  }
  const MonoNs end = clock_->Now();
  metrics.executions.Add();
  metrics.executed_rows.Add(static_cast<uint64_t>(batch.rows()));
  metrics.padded_rows.Add(static_cast<uint64_t>(batch.executed_rows() - batch.rows()));
  metrics.batch_rows.Observe(static_cast<double>(batch.rows()));
  metrics.compute_seconds.Observe(Seconds(result.end_ns - result.start_ns));
  metrics.copy_out_seconds.Observe(Seconds(end - begin));
  metrics.AddCardRows(card.index(), static_cast<uint64_t>(batch.rows()));
  for (size_t i = 0; i < copied.size(); ++i) {
    const Part& part = batch.parts()[i];
    Job& job = *part.job;
    if (!copied[i].ok()) {
      FinishError(job, copied[i], end);
    } else if (job.rows_done.fetch_add(part.rows, std::memory_order_acq_rel) + part.rows ==
               job.binding.rows) {
      FinishOk(job, end);
    }
  }
}

// A batch that did not give an answer. What may be run again goes back into the
// queue, the rest is answered.
void Dispatcher::Impl::Recover(Batch& batch, Card& card, const BatchResult& result) {
  const QueuePtr queue = batch.queue();
  const MonoNs now = clock_->Now();
  const std::string who =
      absl::StrCat("model '", queue->model(), "' version ", queue->version(), ": ");
  const auto fail = [&](const Part& part, absl::StatusCode code, std::string_view what) {
    FinishError(*part.job, absl::Status(code, absl::StrCat(who, AbslView(what))), now);
  };
  const bool lost = result.outcome == BatchOutcome::kCardLost ||
                    result.outcome == BatchOutcome::kNoExecutable;
  // Before its rows go back: they must not come here again.
  if (result.outcome == BatchOutcome::kNoExecutable) Detach(queue, &card);
  std::vector<Part> again;
  for (Part& part : batch.parts()) {
    if (part.job->deadline <= now) {
      FinishError(*part.job, absl::DeadlineExceededError("the deadline passed on a card that failed"),
                  now);
    } else if (lost) {
      // Rows that had not begun lose nothing by a second card; those that had
      // are tried on one other card, no more.
      if (result.started || result.outcome == BatchOutcome::kNoExecutable) ++part.retries;
      if (part.retries <= 1) {
        again.push_back(std::move(part));
      } else {
        fail(part, absl::StatusCode::kInternal,
             absl::StrCat("lost with its card twice: ", result.status.message()));
      }
    } else if (batch.parts().size() > 1) {
      // One request may have spoiled the batch for its neighbours: each is run
      // again by itself, and only the culprit is told.
      again.push_back(std::move(part));
    } else if (result.outcome == BatchOutcome::kOutputTooLarge) {
      fail(part, absl::StatusCode::kResourceExhausted,
           absl::StrCat("the outputs do not fit a slot of the card: ", result.status.message()));
    } else {
      fail(part, absl::StatusCode::kInvalidArgument,
           absl::StrCat("failed on this input: ", result.status.message()));
    }
  }
  if (!again.empty()) {
    if (lost) queue->metrics().retried.Add(again.size());
    queue->PushBack(std::move(again), lost ? card.index() : -1, /*alone=*/!lost, now);
    // Seen by DetachAll, or it is seen here: what comes back to a queue that no
    // card serves must not be forgotten.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (queue->cards().load(std::memory_order_seq_cst) == 0) {
      FailAll(queue, NoCardLeft(*queue));
    } else {
      Reoffer(*queue, /*by_card_thread=*/false);
    }
  }
  ModelListener* listener = listener_.load();
  if (result.outcome == BatchOutcome::kNoExecutable && listener != nullptr) {
    listener->OnResidencyLost(queue->options().executable, card.name(), result.status);
  }
  if (result.suspect && listener != nullptr) {
    listener->OnCardCrashed(queue, card.name(), result.status);
  }
}

void Dispatcher::Impl::Cancel(const std::shared_ptr<Job>& job) {
  const MonoNs now = clock_->Now();
  const bool in_time = !IsDeadline(*job, now);
  const bool never_ran = job->first_taken.load(std::memory_order_relaxed) == 0;
  const absl::Status why = in_time ? absl::CancelledError("the client cancelled the request")
                                   : absl::DeadlineExceededError("the deadline passed");
  if (FinishError(*job, why, now) && never_ran) {
    telemetry::ModelMetrics& metrics = job->queue->metrics();
    (in_time ? metrics.cancelled_before_execution : metrics.expired_before_execution).Add();
  }
}

MonoNs Dispatcher::Impl::OnTimer(MonoNs now) {
  MonoNs next = kNever;
  for (const QueuePtr& queue : Queues()) {
    for (const auto& job : queue->RemoveExpired(now)) {
      const bool never_ran = job->first_taken.load(std::memory_order_relaxed) == 0;
      if (FinishError(*job, absl::DeadlineExceededError("the deadline passed in the queue"), now) &&
          never_ran) {
        queue->metrics().expired_before_execution.Add();
      }
    }
    if (queue->empty()) continue;
    if (!AnyCardSoon(*queue, now)) {
      FailAll(queue, absl::UnavailableError(
                         absl::StrCat("no card became ready for model '", queue->model(),
                                      "' version ", queue->version(), " within 10 s")));
      continue;
    }
    if (const MonoNs since = queue->no_card_since().load(std::memory_order_relaxed); since != 0) {
      next = std::min(next, since + kNoCardGrace);
    }
    if (queue->options().limits.delay > 0) Offer(*queue, /*by_card_thread=*/false);
    next = std::min(next, queue->NextEvent(now));
  }
  return next;
}

Dispatcher::Dispatcher(const Clock* clock) : impl_(std::make_unique<Impl>(clock)) {}
Dispatcher::~Dispatcher() = default;
void Dispatcher::SetModelListener(ModelListener* listener) { impl_->SetModelListener(listener); }
void Dispatcher::SetCards(std::vector<Card*> cards) { impl_->SetCards(std::move(cards)); }
void Dispatcher::Attach(const QueuePtr& queue, Card* card) { impl_->Attach(queue, card); }
void Dispatcher::Detach(const QueuePtr& queue, Card* card) { impl_->Detach(queue, card); }
void Dispatcher::DetachAll(const QueuePtr& queue) { impl_->DetachAll(queue); }
absl::Status Dispatcher::Submit(std::shared_ptr<Job> job) { return impl_->Submit(std::move(job)); }
void Dispatcher::Cancel(const std::shared_ptr<Job>& job) { impl_->Cancel(job); }
void Dispatcher::FailAll(const QueuePtr& queue, const absl::Status& why) {
  impl_->FailAll(queue, why);
}
void Dispatcher::OnBatchDone(Card& card, Slot slot, void* tag, BatchResult result) {
  impl_->OnBatchDone(card, std::move(slot), tag, std::move(result));
}
void Dispatcher::OnTurn(Card& card) { impl_->OnTurn(card); }
void Dispatcher::OnCardLost(Card& card) { impl_->OnCardLost(card); }
void Dispatcher::OnResidentLost(Card& card, cards::ExecutableId id, const absl::Status& status) {
  impl_->OnResidentLost(card, id, status);
}

}  // namespace belfry::scheduling
