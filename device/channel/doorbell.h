// A futex word shared by two processes: one side sleeps on it, the other wakes
// it, and a wake costs a system call only if somebody sleeps.
#ifndef BELFRY_DEVICE_CHANNEL_DOORBELL_H_
#define BELFRY_DEVICE_CHANNEL_DOORBELL_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "device/channel/layout.h"

namespace belfry::channel {

// A view of one bell of a channel; does not own the memory, cheap to copy.
//
// Exactly one thread waits on a bell; any thread of either process may ring it.
// The waiter's loop is
//
//   for (;;) {
//     const uint32_t ticket = bell.Ticket();
//     if (work is there) { do it; continue; }
//     bell.Wait(ticket, timeout);
//   }
//
// Work that is published before Ring() is seen by a waiter that Ring() has
// woken, and no ring between Ticket() and Wait() is lost.
class Doorbell {
 public:
  // The bell on which the card's execution thread sleeps.
  static Doorbell OfCard(ChannelHeader& header) {
    return Doorbell(&header.card_bell, &header.card_sleeping);
  }
  // The bell on which belfryd's thread for this card sleeps.
  static Doorbell OfFront(ChannelHeader& header) {
    return Doorbell(&header.front_bell, &header.front_sleeping);
  }

  Doorbell(std::atomic<uint32_t>* word, std::atomic<uint32_t>* sleeping)
      : word_(word), sleeping_(sleeping) {}

  // Take it before looking for work.
  uint32_t Ticket() const { return word_->load(std::memory_order_seq_cst); }

  // Returns true once the bell was rung after 'ticket' was taken, false after
  // 'timeout' without a ring (absl::InfiniteDuration(): never). Spins for
  // 'spin' before it sleeps; the default does not, since the other side may
  // need this very core.
  bool Wait(uint32_t ticket, absl::Duration timeout,
            absl::Duration spin = absl::ZeroDuration()) const;

  // Wakes the waiter if the flag says that it sleeps. Async-signal-safe.
  void Ring() const;

  // Ring() that does not trust the flag: for rare events (the other process is
  // gone, shutdown), where a flag that a faulty peer cleared must not cost the
  // wake-up.
  void RingAlways() const;

 private:
  std::atomic<uint32_t>* word_;
  std::atomic<uint32_t>* sleeping_;
};

}  // namespace belfry::channel

#endif  // BELFRY_DEVICE_CHANNEL_DOORBELL_H_
