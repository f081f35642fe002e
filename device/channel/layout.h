// Memory layout of the channel between belfryd and one belfry-card process.
// README.md beside this file tells how the two sides use it.
//
// One memfd, mapped by both sides: a ChannelHeader, then kSlots SlotControl,
// then per slot an input arena and an output arena, each page aligned. Nothing
// in it is a pointer. Each side writes only the fields marked as its own and
// must copy a field of the other side to private memory before checking it:
// the other side may change it at any time.
#ifndef BELFRY_DEVICE_CHANNEL_LAYOUT_H_
#define BELFRY_DEVICE_CHANNEL_LAYOUT_H_

#include <atomic>
#include <cstdint>

namespace belfry::channel {

inline constexpr uint64_t kMagic = 0x42454c4652594348;  // "BELFRYCH"
inline constexpr uint32_t kLayoutVersion = 1;
// Two: the front end copies one batch while the card runs the other.
inline constexpr uint32_t kSlots = 2;
inline constexpr uint32_t kMaxTensors = 128;  // of a batch, each way
inline constexpr uint32_t kMaxRank = 12;
inline constexpr uint32_t kMaxMessage = 1024;  // bytes of an error text
// Tensors in an arena start at multiples of this (a cache line).
inline constexpr uint64_t kTensorAlign = 64;

// One tensor in a slot's arena. 'offset' counts from the arena's start.
struct TensorDesc {
  uint8_t dtype;  // belfry::DataType
  uint8_t rank;   // <= kMaxRank
  uint8_t reserved[6];
  int64_t dims[kMaxRank];
  uint64_t offset;
  uint64_t bytes;
};

// A slot's way: kFree -> (belfryd) kSubmitted -> (card) kRunning -> (card)
// kDone -> (belfryd) kFree. Only the named side makes the step.
enum class SlotState : uint32_t { kFree = 0, kSubmitted = 1, kRunning = 2, kDone = 3 };

// Outcome of a batch, written by the card.
enum class Outcome : uint32_t {
  kOk = 0,
  kModelError = 1,    // this batch failed; the executable and the card are fine
  kNoExecutable = 2,  // the id is not loaded
  kBadRequest = 3,    // the card found a descriptor that breaks the layout
  kCardError = 4,     // the card must be restarted
  kOutputTooLarge = 5,
};

// result.flags. kLast is set on a batch's final answer. A driver that streams
// (text generation) sends answers without it: belfryd then sets the slot back
// to kRunning to receive the next.
inline constexpr uint32_t kLast = 1;

struct alignas(64) SlotControl {
  std::atomic<uint32_t> state;  // SlotState

  // Written by belfryd before kSubmitted.
  uint32_t executable;
  uint64_t sequence;  // number of the batch, unique per channel, echoed
  uint32_t input_count;
  uint32_t reserved0;
  TensorDesc inputs[kMaxTensors];

  // Written by the card before kDone.
  uint64_t done_sequence;
  uint32_t outcome;  // Outcome
  uint32_t flags;
  uint32_t output_count;
  uint32_t message_size;  // <= kMaxMessage
  uint64_t start_ns;      // CLOCK_MONOTONIC, execution began
  uint64_t end_ns;        // CLOCK_MONOTONIC, outputs are in the arena
  uint64_t cycles;        // modelled cycles, 0 where there is no model
  TensorDesc outputs[kMaxTensors];
  char message[kMaxMessage];
};

struct ArenaRange {
  uint64_t offset;  // from the start of the mapping, page aligned
  uint64_t bytes;
};

struct alignas(64) ChannelHeader {
  // Written once by belfryd before the card starts.
  uint64_t magic;
  uint32_t version;
  uint32_t slots;
  uint64_t total_bytes;
  ArenaRange input[kSlots];
  ArenaRange output[kSlots];

  // Futex words. A side that changes a slot's state increments the other
  // side's bell and wakes it if the matching 'sleeping' flag is set.
  alignas(64) std::atomic<uint32_t> card_bell;      // belfryd rings
  std::atomic<uint32_t> card_sleeping;
  alignas(64) std::atomic<uint32_t> front_bell;     // the card rings (and
                                                    // belfryd, for itself)
  std::atomic<uint32_t> front_sleeping;
};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace belfry::channel

#endif  // BELFRY_DEVICE_CHANNEL_LAYOUT_H_
