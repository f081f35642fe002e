// Reads a finished batch out of a slot's control block, believing nothing.
#ifndef BELFRY_SERVER_CARDS_ANSWER_H_
#define BELFRY_SERVER_CARDS_ANSWER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "device/channel/layout.h"
#include "server/base/clock.h"
#include "server/cards/card.h"

namespace belfry::cards {

// What the front end knows about the batch by itself.
struct ExpectedAnswer {
  uint64_t sequence = 0;
  MonoNs submitted = 0;
  MonoNs now = 0;
  uint64_t arena_bytes = 0;  // of the slot's output
};

// An error means that the card breaks the protocol (INVALID_ARGUMENT: what came
// and what was expected) or asks to be restarted (UNAVAILABLE, with its words);
// either way the process must go. Times are clamped to the batch's stay on the
// card, texts are made printable. Each shared field is read once.
absl::StatusOr<BatchResult> ReadAnswer(const channel::SlotControl& control,
                                       const ExpectedAnswer& expected);

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_ANSWER_H_
