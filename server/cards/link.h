// One incarnation of a card's process as the hot path sees it: the shared
// memory and the front end's own book about its slots.
#ifndef BELFRY_SERVER_CARDS_LINK_H_
#define BELFRY_SERVER_CARDS_LINK_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "device/channel/doorbell.h"
#include "device/channel/mapping.h"
#include "server/base/clock.h"
#include "server/cards/card.h"
#include "server/cards/process.h"
#include "server/cards/watchdog.h"

namespace belfry::cards {

// Kept by shared_ptr: by the card while the process lives, by each Slot, so that
// the memory stays mapped as long as somebody reads an answer in it. A restart
// makes a new Link with new memory; the old one is never used again for new
// work.
//
// A seat is the front end's private state of a slot. The card cannot touch it,
// so whatever the card writes into shared memory, a slot has one holder and a
// batch one completion:
//
//   kFree --TryAcquire--> kHeld --Submit--> kInFlight --Collect--> kHeld
//     ^---------------------Release-----------'
//
// Threads: TryAcquire from any; Release and Submit by the slot's holder; Collect,
// CollectLost, Running, executable and MarkLost by the card's completion thread;
// Condemn and the rest from any. Only Condemn and condemned() take a lock.
class Link {
 public:
  Link(channel::Mapping mapping, std::unique_ptr<ChildProcess> process)
      : mapping_(std::move(mapping)), process_(std::move(process)) {}

  bool TryAcquire(uint32_t* index);
  void Release(uint32_t index);
  // Starts the batch. False if the link is lost already: the completion thread
  // must then be told to look for it (CollectLost).
  [[nodiscard]] bool Submit(uint32_t index, const BatchCall& call, MonoNs now);

  // A finished batch, if there is one.
  struct Collected {
    uint32_t index = 0;
    void* tag = nullptr;
    BatchResult result;
  };
  // A collected batch, nullopt if none is done, or an error if the card must be
  // killed (the batch is then still in flight; '*culprit' says where).
  absl::StatusOr<std::optional<Collected>> Collect(MonoNs now, uint32_t* culprit);
  // After MarkLost(): a batch in flight, ended as kCardLost with its reason.
  std::optional<Collected> CollectLost(MonoNs now);

  // The batch that the card works on. 'index' is the slot's.
  std::optional<RunningItem> Running() const;

  // What the slot's batch runs, while in flight.
  ExecutableId executable(uint32_t index) const { return seats_[index].executable; }

  // From here on Submit returns false. 'why' is not OK.
  void MarkLost(const absl::Status& why) {
    lost_why_ = why;
    lost_.store(true, std::memory_order_seq_cst);
  }
  bool lost() const { return lost_.load(std::memory_order_seq_cst); }

  // Kills the process because of 'reason'; only the first reason counts.
  void Condemn(const std::string& reason);
  std::string condemned() const;  // empty: was not

  int slots_in_use() const;
  size_t input_capacity() const { return mapping_.input(0).size(); }
  size_t output_capacity() const { return mapping_.output(0).size(); }
  std::span<uint8_t> input(uint32_t index) const { return mapping_.input(index); }
  std::span<uint8_t> output(uint32_t index) const { return mapping_.output(index); }
  channel::Doorbell front_bell() const { return channel::Doorbell::OfFront(mapping_.header()); }
  ChildProcess& process() { return *process_; }

 private:
  enum Phase : uint32_t { kFree, kHeld, kInFlight };

  struct alignas(64) Seat {
    std::atomic<uint32_t> phase{kFree};
    // Written by the holder before kInFlight, read by the completion thread
    // while kInFlight.
    uint64_t sequence = 0;
    void* tag = nullptr;
    ExecutableId executable = 0;
    MonoNs submitted = 0;
    MonoNs watchdog_ns = 0;
    bool refused = false;  // could not be put into the channel
  };

  bool InFlight(uint32_t index) const {
    return seats_[index].phase.load(std::memory_order_seq_cst) == kInFlight;
  }
  Collected TakeBack(uint32_t index, BatchResult result);

  const channel::Mapping mapping_;
  const std::unique_ptr<ChildProcess> process_;
  std::array<Seat, channel::kSlots> seats_;
  std::atomic<uint64_t> next_sequence_{1};
  std::atomic<bool> lost_{false};
  // The completion thread's.
  MonoNs last_answer_ = 0;
  absl::Status lost_why_;

  mutable absl::Mutex mu_;
  std::string condemned_ ABSL_GUARDED_BY(mu_);
};

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_LINK_H_
