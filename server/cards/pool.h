// All cards of the host: starts their processes and keeps them alive.
#ifndef BELFRY_SERVER_CARDS_POOL_H_
#define BELFRY_SERVER_CARDS_POOL_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/cards/card.h"

namespace belfry::cards {

// Most cards of one server, all groups together: a model's queue has one bit for
// each (scheduling), and no host has as many slots.
inline constexpr int kMaxCards = 64;

struct CardGroup {  // one element of --cards
  std::string driver;
  int count = 0;
};

// "cpu:2,spyre-sim:1" -> groups; no count means one. INVALID_ARGUMENT names the
// element that is wrong.
absl::StatusOr<std::vector<CardGroup>> ParseCards(std::string_view text);

struct PoolOptions {
  std::vector<CardGroup> groups;
  std::string card_binary;      // belfry-card
  std::string driver_dir;       // where drivers lie; empty: belfry-card knows
  int cores_per_card = 1;
  bool pin = false;             // give each card cores of its own
  size_t arena_bytes = 128u << 20;  // of each slot, each way; touched on use
  uint64_t memory_bytes = 0;    // per card; 0: the driver's default
  std::string driver_json = "{}";
  // For the process to say hello; also how long Load, Warm wait for a card that
  // is not READY.
  absl::Duration start_timeout = absl::Seconds(60);
  // A load, warm or unload that keeps the card longer is taken for a hang: the
  // process is killed.
  absl::Duration control_timeout = absl::Minutes(5);
  // Restart back-off: first, and doubled up to the limit; reset after a minute
  // of good service.
  absl::Duration backoff_first = absl::Milliseconds(100);
  absl::Duration backoff_limit = absl::Seconds(30);
};

// What `belfry-card --driver NAME --describe` prints: what an artifact must
// have been compiled for. Keys: driver, arch, isa, torch (as far as known).
absl::StatusOr<std::map<std::string, std::string>> DescribeDriver(const std::string& card_binary,
                                                                  const std::string& driver);

// Thread-safe. Destroying it stops all cards; the listener must outlive it.
class CardPool {
 public:
  // Starts the processes and returns at once; cards become READY later.
  static absl::StatusOr<std::unique_ptr<CardPool>> Start(PoolOptions options,
                                                         CardListener* listener);
  virtual ~CardPool() = default;
  virtual const std::vector<Card*>& cards() const = 0;
  // True once every card has been READY or has failed to start once.
  virtual bool WaitStarted(absl::Duration timeout) = 0;
  // Asks every card to finish what it runs and exit; kills after the grace time.
  // Returns when all processes are gone. May be called again, also while it
  // runs, to make the grace time shorter. Not from the listener.
  virtual void Stop(absl::Duration grace) = 0;
};

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_POOL_H_
