#include "server/cards/link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/cards/answer.h"

namespace belfry::cards {

using channel::kSlots;
using channel::SlotControl;
using channel::SlotState;

bool Link::TryAcquire(uint32_t* index) {
  for (uint32_t i = 0; i < kSlots; ++i) {
    uint32_t expected = kFree;
    if (seats_[i].phase.load(std::memory_order_relaxed) == kFree &&
        seats_[i].phase.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                                std::memory_order_relaxed)) {
      *index = i;
      return true;
    }
  }
  return false;
}

void Link::Release(uint32_t index) {
  seats_[index].phase.store(kFree, std::memory_order_release);
}

bool Link::Submit(uint32_t index, const BatchCall& call, MonoNs now) {
  Seat& seat = seats_[index];
  seat.sequence = next_sequence_.fetch_add(1, std::memory_order_relaxed);
  seat.tag = call.tag;
  seat.executable = call.executable;
  seat.submitted = now;
  seat.watchdog_ns = call.watchdog_ns;
  seat.refused = call.inputs.size() > channel::kMaxTensors;

  SlotControl& control = mapping_.control(index);
  // A card that lies could have left kDone here.
  control.state.store(static_cast<uint32_t>(SlotState::kFree), std::memory_order_relaxed);
  if (!seat.refused) {
    control.executable = call.executable;
    control.sequence = seat.sequence;
    control.input_count = static_cast<uint32_t>(call.inputs.size());
    std::copy(call.inputs.begin(), call.inputs.end(), control.inputs);
  }
  // In flight before the card can see it: an answer that comes at once finds
  // the seat in order. seq_cst with MarkLost(): either this thread sees 'lost',
  // or the completion thread, looking after it set 'lost', sees kInFlight.
  seat.phase.store(kInFlight, std::memory_order_seq_cst);
  if (lost()) return false;
  if (seat.refused) {
    front_bell().Ring();
    return true;
  }
  control.state.store(static_cast<uint32_t>(SlotState::kSubmitted), std::memory_order_release);
  channel::Doorbell::OfCard(mapping_.header()).Ring();
  return true;
}

Link::Collected Link::TakeBack(uint32_t index, BatchResult result) {
  Seat& seat = seats_[index];
  Collected out{index, seat.tag, std::move(result)};
  mapping_.control(index).state.store(static_cast<uint32_t>(SlotState::kFree),
                                      std::memory_order_relaxed);
  seat.phase.store(kHeld, std::memory_order_release);
  return out;
}

absl::StatusOr<std::optional<Link::Collected>> Link::Collect(MonoNs now, uint32_t* culprit) {
  for (uint32_t i = 0; i < kSlots; ++i) {
    if (!InFlight(i)) continue;
    const Seat& seat = seats_[i];
    if (seat.refused) {
      BatchResult result;
      result.outcome = BatchOutcome::kModelError;
      result.status = absl::InvalidArgumentError(absl::StrCat(
          "the batch has more input tensors than the channel takes (", channel::kMaxTensors, ")"));
      result.start_ns = result.end_ns = now;
      return TakeBack(i, std::move(result));
    }
    const SlotControl& control = mapping_.control(i);
    const uint32_t state = control.state.load(std::memory_order_acquire);
    if (state < static_cast<uint32_t>(SlotState::kDone)) continue;
    *culprit = i;
    if (state > static_cast<uint32_t>(SlotState::kDone)) {
      return absl::InvalidArgumentError(absl::StrCat("answers nonsense: slot state ", state));
    }
    auto result = ReadAnswer(control, {seat.sequence, seat.submitted, std::max(now, seat.submitted),
                                       mapping_.output(i).size()});
    if (!result.ok()) return result.status();
    last_answer_ = now;
    return TakeBack(i, *std::move(result));
  }
  return std::nullopt;
}

std::optional<Link::Collected> Link::CollectLost(MonoNs now) {
  // The running one first, while it still can be told from the waiting one.
  const std::optional<RunningItem> running = Running();
  if (!running) return std::nullopt;
  BatchResult result;
  result.outcome = BatchOutcome::kCardLost;
  result.status = lost_why_;
  result.end_ns = now;
  return TakeBack(static_cast<uint32_t>(running->index), std::move(result));
}

std::optional<RunningItem> Link::Running() const {
  std::array<WorkItem, kSlots> items;
  std::array<uint32_t, kSlots> slots;
  size_t count = 0;
  for (uint32_t i = 0; i < kSlots; ++i) {
    if (!InFlight(i)) continue;
    items[count] = {seats_[i].sequence, seats_[i].submitted, seats_[i].watchdog_ns};
    slots[count++] = i;
  }
  auto running = FindRunning(std::span(items.data(), count), last_answer_);
  if (running) running->index = slots[running->index];
  return running;
}

void Link::Condemn(const std::string& reason) {
  {
    absl::MutexLock lock(&mu_);
    if (!condemned_.empty()) return;
    condemned_ = reason;
  }
  process_->Kill();
}

std::string Link::condemned() const {
  absl::MutexLock lock(&mu_);
  return condemned_;
}

int Link::slots_in_use() const {
  int used = 0;
  for (const Seat& seat : seats_) {
    if (seat.phase.load(std::memory_order_relaxed) != kFree) ++used;
  }
  return used;
}

}  // namespace belfry::cards
