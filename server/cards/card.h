// The front end's view of one card: its state, its two slots, its residents.
#ifndef BELFRY_SERVER_CARDS_CARD_H_
#define BELFRY_SERVER_CARDS_CARD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/channel/layout.h"
#include "server/base/clock.h"

namespace belfry::cards {

class Card;

// STARTING -> READY -> (process lost) RESTARTING -> STARTING …; any -> STOPPED
// at shutdown. READY means: the process runs and every resident is loaded.
enum class CardState : uint8_t { kStarting, kReady, kRestarting, kStopped };
std::string_view CardStateName(CardState state);

// Stable across restarts of a card's process and equal on all cards.
using ExecutableId = uint32_t;

// What to run. Names what the card process needs; compiled artifacts have a
// folder, built-in models a name.
struct ExecutableSpec {
  ExecutableId id = 0;
  std::string label;         // "card-fraud/1", for logs
  std::string artifact_dir;  // empty for a built-in
  std::string builtin;       // "echo"
};

// Symbol values of one warm-up execution, "batch" -> 64.
using WarmShape = std::vector<std::pair<std::string, int64_t>>;

// The right to use one of a card's slots: exactly one holder at a time.
// Destroying it gives the slot back. Move-only, any thread.
class Slot {
 public:
  Slot() = default;
  Slot(Slot&& other) noexcept;
  Slot& operator=(Slot&& other) noexcept;
  ~Slot();

  explicit operator bool() const { return link_ != nullptr; }
  std::span<uint8_t> input() const;
  std::span<const uint8_t> output() const;

 private:
  friend class Card;
  std::shared_ptr<void> link_;  // keeps the mapping alive after a restart
  Card* card_ = nullptr;
  uint32_t index_ = 0;
};

struct BatchCall {
  ExecutableId executable = 0;
  std::span<const channel::TensorDesc> inputs;  // offsets in slot.input()
  MonoNs watchdog_ns = 0;  // longer than this from its start: the card hangs
  // Given back with the completion.
  void* tag = nullptr;
};

// How a batch ended. kCardLost: the process died, was killed by the watchdog or
// broke the protocol; the rows may be run elsewhere.
enum class BatchOutcome : uint8_t { kOk, kModelError, kNoExecutable, kOutputTooLarge, kCardLost };

struct BatchResult {
  BatchOutcome outcome = BatchOutcome::kOk;
  absl::Status status;  // for people, OK iff outcome is kOk
  // kCardLost only. started: the card had begun to run this batch. suspect: and
  // the loss looks like its doing (crash signal, exit, watchdog, nonsense), not
  // like a SIGKILL or SIGTERM from outside. Quarantine counts suspects.
  bool started = false;
  bool suspect = false;
  // Copied from the channel and checked: rank, sizes >= 0, dtype known, bytes =
  // product of dims, ranges inside slot.output() and disjoint.
  std::vector<channel::TensorDesc> outputs;
  // When the card ran it; kCardLost: start_ns is 0 unless it was started.
  MonoNs start_ns = 0;
  MonoNs end_ns = 0;
  uint64_t cycles = 0;
};

// Who is told what happens to cards (the dispatcher). Called from the cards'
// own threads, one call per card at a time, in the order in which things
// happened to the card; must not block for long, and must not call Load, Warm,
// Unload or CardPool::Stop, which may wait for the very thread that calls.
class CardListener {
 public:
  virtual ~CardListener() = default;
  // A submitted batch ended. The slot is the callee's again.
  virtual void OnBatchDone(Card& card, Slot slot, void* tag, BatchResult result) = 0;
  // A slot may be acquired now: the card became READY, or RequestTurn was called.
  virtual void OnTurn(Card& card) = 0;
  // The card is no longer READY. Batches in flight follow as kCardLost.
  virtual void OnCardLost(Card& card) = 0;
  // Loading this resident again after a restart failed or killed the card; it
  // is a resident no more.
  virtual void OnResidentLost(Card& card, ExecutableId id, const absl::Status& status) = 0;
};

struct CardInfo {  // for `belfry cards` and the metrics
  std::string name;  // "cpu:0"
  std::string driver;
  CardState state = CardState::kStarting;
  int pid = 0;
  int restarts = 0;
  std::string last_error;
  uint64_t memory_used = 0;
  uint64_t memory_total = 0;
  double busy_seconds = 0;
  uint64_t batches = 0;
  uint64_t cycles = 0;
  std::vector<std::string> residents;  // labels
  std::vector<int> cores;
};

// Thread-safe. Owned by CardPool; lives until the pool is destroyed.
class Card {
 public:
  virtual ~Card() = default;
  virtual int index() const = 0;                 // among all cards, from 0
  virtual const std::string& name() const = 0;   // "cpu:0"
  virtual const std::string& driver() const = 0; // "cpu"
  virtual CardState state() const = 0;           // one atomic load

  // Hot path: lock-free. An empty Slot if the card is not READY or both slots
  // are taken.
  virtual Slot TryAcquireSlot() = 0;
  virtual int slots_in_use() const = 0;
  virtual size_t input_capacity() const = 0;   // bytes of a slot's arena
  virtual size_t output_capacity() const = 0;

  // Hands the slot to the card. Never fails: a card that is lost by now
  // completes it with kCardLost. Completion comes through the listener, always
  // exactly once, from another thread.
  virtual void Submit(Slot slot, const BatchCall& call) = 0;
  // Has the card's own thread call OnTurn soon (work too long for the caller's).
  virtual void RequestTurn() = 0;

  // Block; not for the hot path. Load makes the executable a resident, which
  // is loaded again by itself after each restart. UNAVAILABLE with the reason
  // if the card died meanwhile; FAILED_PRECONDITION / RESOURCE_EXHAUSTED with
  // the driver's words otherwise. Batches of other residents go on.
  virtual absl::Status Load(const ExecutableSpec& spec) = 0;
  virtual absl::Status Warm(ExecutableId id, std::span<const WarmShape> shapes) = 0;
  virtual absl::Status Unload(ExecutableId id) = 0;

  virtual CardInfo Info() const = 0;

 protected:
  // For implementations: makes and takes apart slots.
  static Slot MakeSlot(std::shared_ptr<void> link, Card* card, uint32_t index);
  static std::shared_ptr<void> TakeSlot(Slot slot, uint32_t* index);
  friend class Slot;
  virtual void ReleaseSlot(const std::shared_ptr<void>& link, uint32_t index) = 0;
  virtual std::span<uint8_t> SlotInput(const std::shared_ptr<void>& link, uint32_t index) const = 0;
  virtual std::span<const uint8_t> SlotOutput(const std::shared_ptr<void>& link,
                                              uint32_t index) const = 0;
};

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_CARD_H_
