#include "server/cards/completion_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/telemetry/log.h"

namespace belfry::cards {
namespace {

// The longest sleep; see the class comment.
constexpr MonoNs kTick = 1'000'000'000;
// A loop that wakes this much after its time was not scheduled (a frozen
// container, a paused virtual machine), and neither was the card.
constexpr MonoNs kOverslept = 50'000'000;

}  // namespace

CompletionLoop::CompletionLoop(Card* card, SlotMaker make_slot, CardListener* listener,
                               std::atomic<CardState>* state, const Clock* clock)
    : card_(card), make_slot_(make_slot), listener_(listener), state_(state), clock_(clock) {
  thread_ = std::thread([this] { Run(); });
}

CompletionLoop::~CompletionLoop() {
  std::shared_ptr<Link> bell;
  {
    absl::MutexLock lock(&mu_);
    quit_ = true;
    bell = bell_link_;
  }
  RingCurrent(bell);
  thread_.join();
}

void CompletionLoop::RequestTurn() {
  // A request that is pending already has rung the bell, or will be served when
  // the card becomes READY.
  if (turn_requested_.exchange(true, std::memory_order_seq_cst)) return;
  if (const std::shared_ptr<Link> link = cell_.Get(); link != nullptr) link->front_bell().Ring();
}

void CompletionLoop::AddOrphan(std::shared_ptr<Link> link) {
  std::shared_ptr<Link> bell;
  {
    absl::MutexLock lock(&mu_);
    orphans_.push_back(std::move(link));
    bell = bell_link_;
  }
  RingCurrent(bell);
}

void CompletionLoop::Ready(std::shared_ptr<Link> link) {
  Event event;
  event.ready = std::move(link);
  Post(std::move(event));
}

void CompletionLoop::Lost(std::shared_ptr<Link> link, const absl::Status& why, bool suspect) {
  absl::Notification done;
  Event event;
  event.lost = std::move(link);
  event.why = why;
  event.suspect = suspect;
  event.done = &done;
  Post(std::move(event));
  done.WaitForNotification();
}

void CompletionLoop::ResidentLost(ExecutableId id, const absl::Status& why) {
  Event event;
  event.resident_lost = id;
  event.why = why;
  Post(std::move(event));
}

void CompletionLoop::Post(Event event) {
  std::shared_ptr<Link> bell;
  {
    absl::MutexLock lock(&mu_);
    events_.push_back(std::move(event));
    bell = bell_link_;
  }
  RingCurrent(bell);
}

void CompletionLoop::RingCurrent(const std::shared_ptr<Link>& link) {
  // RingAlways: a 'sleeping' flag that the card cleared must not cost an event.
  if (link != nullptr) {
    link->front_bell().RingAlways();
  } else {
    channel::Doorbell(&own_bell_, &own_sleeping_).RingAlways();
  }
}

channel::Doorbell CompletionLoop::CurrentBell() {
  return live_ != nullptr ? live_->front_bell() : channel::Doorbell(&own_bell_, &own_sleeping_);
}

void CompletionLoop::SetBellLink(std::shared_ptr<Link> link) {
  absl::MutexLock lock(&mu_);
  bell_link_ = std::move(link);
}

void CompletionLoop::Run() {
  for (;;) {
    // The ticket before looking for work; 'live_' changes only in the steps
    // below, after which a new ticket is taken.
    const channel::Doorbell bell = CurrentBell();
    const uint32_t ticket = bell.Ticket();
    if (HandleEvents() || HandleOrphans()) continue;
    const bool collected = CollectAll();
    const bool asked = turn_requested_.load(std::memory_order_relaxed) &&
                       turn_requested_.exchange(false, std::memory_order_seq_cst);
    if ((collected || asked) && state_->load(std::memory_order_acquire) == CardState::kReady) {
      listener_->OnTurn(*card_);
    }
    if (collected || asked) continue;
    const MonoNs now = clock_->Now();
    MonoNs wake = now + kTick;
    if (CheckWatchdog(now, &wake)) continue;
    if (QuitNow()) return;
    bell.Wait(ticket, absl::Nanoseconds(wake - now));
    const MonoNs late = clock_->Now() - wake;
    if (late > kOverslept) late_ns_ += late;
  }
}

bool CompletionLoop::QuitNow() {
  absl::MutexLock lock(&mu_);
  return quit_ && events_.empty() && orphans_.empty();
}

bool CompletionLoop::HandleEvents() {
  std::deque<Event> events;
  {
    absl::MutexLock lock(&mu_);
    events.swap(events_);
  }
  for (Event& event : events) Handle(event);
  return !events.empty();
}

void CompletionLoop::Handle(Event& event) {
  if (event.ready != nullptr) Serve(std::move(event.ready));
  if (event.resident_lost) listener_->OnResidentLost(*card_, *event.resident_lost, event.why);
  if (event.lost != nullptr && event.lost == live_) {
    // Answers that were complete when the process ended are good.
    if (live_->condemned().empty()) CollectAll();
    if (live_ != nullptr) {
      std::optional<Interrupted> interrupted;
      if (const auto running = live_->Running()) {
        interrupted = {static_cast<uint32_t>(running->index), running->since, event.suspect};
      }
      Lose(event.why, interrupted);
    }
  }
  if (event.done != nullptr) event.done->Notify();
}

void CompletionLoop::Serve(std::shared_ptr<Link> link) {
  live_ = std::move(link);
  SetBellLink(live_);
  late_ns_ = 0;
  cell_.Set(live_);
  CardState expected = CardState::kStarting;
  if (!state_->compare_exchange_strong(expected, CardState::kReady)) return;  // lost meanwhile
  turn_requested_.store(false, std::memory_order_seq_cst);
  listener_->OnTurn(*card_);
}

bool CompletionLoop::CollectAll() {
  bool any = false;
  while (live_ != nullptr) {
    const std::shared_ptr<Link> link = live_;
    uint32_t culprit = 0;
    auto done = link->Collect(clock_->Now(), &culprit);
    if (!done.ok()) {
      const std::string reason(done.status().message());
      link->Condemn(reason);
      Lose(absl::UnavailableError(absl::StrCat(card_->name(), ": ", reason)),
           Interrupted{culprit, clock_->Now(), true});
      return true;
    }
    if (!done->has_value()) return any;
    any = true;
    Deliver(link, **std::move(done));
  }
  return any;
}

bool CompletionLoop::CheckWatchdog(MonoNs now, MonoNs* wake) {
  if (live_ == nullptr) return false;
  const auto running = live_->Running();
  if (!running || running->deadline == kNever) return false;
  if (running->sequence != late_sequence_) {
    late_sequence_ = running->sequence;
    late_ns_ = 0;
  }
  const MonoNs deadline = running->deadline > kNever - late_ns_ ? kNever
                                                                : running->deadline + late_ns_;
  if (now < deadline) {
    *wake = std::min(*wake, deadline);
    return false;
  }
  const auto slot = static_cast<uint32_t>(running->index);
  const std::string reason = absl::StrCat(
      "watchdog: a batch of executable ", live_->executable(slot), " ran longer than ",
      absl::FormatDuration(absl::Nanoseconds(running->deadline - running->since)));
  live_->Condemn(reason);
  Lose(absl::UnavailableError(absl::StrCat(card_->name(), ": ", reason)),
       Interrupted{slot, running->since, true});
  return true;
}

void CompletionLoop::Lose(const absl::Status& why, std::optional<Interrupted> interrupted) {
  const std::shared_ptr<Link> link = std::move(live_);
  live_ = nullptr;
  CardState expected = CardState::kReady;
  state_->compare_exchange_strong(expected, CardState::kRestarting);
  cell_.Clear();
  SetBellLink(nullptr);
  link->MarkLost(why);
  listener_->OnCardLost(*card_);
  CompleteLost(link, interrupted);
}

void CompletionLoop::CompleteLost(const std::shared_ptr<Link>& link,
                                  std::optional<Interrupted> interrupted) {
  const MonoNs now = clock_->Now();
  while (auto done = link->CollectLost(now)) {
    if (interrupted && interrupted->slot == done->index) {
      done->result.started = true;
      done->result.suspect = interrupted->suspect;
      done->result.start_ns = interrupted->since;
      interrupted.reset();
    }
    Deliver(link, *std::move(done));
  }
}

bool CompletionLoop::HandleOrphans() {
  std::vector<std::shared_ptr<Link>> orphans;
  {
    absl::MutexLock lock(&mu_);
    orphans.swap(orphans_);
  }
  for (const auto& link : orphans) CompleteLost(link, std::nullopt);
  return !orphans.empty();
}

void CompletionLoop::Deliver(const std::shared_ptr<Link>& link, Link::Collected done) {
  const BatchResult& result = done.result;
  if (result.outcome != BatchOutcome::kCardLost) {
    stats_.busy_ns.fetch_add(result.end_ns - result.start_ns, std::memory_order_relaxed);
    stats_.batches.fetch_add(1, std::memory_order_relaxed);
    stats_.cycles.fetch_add(result.cycles, std::memory_order_relaxed);
  }
  listener_->OnBatchDone(*card_, make_slot_(link, card_, done.index), done.tag,
                         std::move(done.result));
}

}  // namespace belfry::cards
