// A card's own thread in the front end: collects answers, watches the clock,
// and is the only one that calls the listener.
#ifndef BELFRY_SERVER_CARDS_COMPLETION_LOOP_H_
#define BELFRY_SERVER_CARDS_COMPLETION_LOOP_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "device/channel/doorbell.h"
#include "server/base/clock.h"
#include "server/cards/card.h"
#include "server/cards/link.h"
#include "server/cards/link_cell.h"

namespace belfry::cards {

// Figures that any thread may read.
struct CardStats {
  std::atomic<int64_t> busy_ns{0};
  std::atomic<uint64_t> batches{0};
  std::atomic<uint64_t> cycles{0};
};

// Lives as long as the card, through all restarts: a slot of a dead process that
// is submitted late still finds somebody who completes it. What happens to the
// card reaches the loop as events in one queue, so the listener hears of it in
// order and never from two threads at once.
//
// The loop sleeps on the front bell of the process that serves, or on a bell of
// its own while there is none. A process that plays with its bell can delay the
// loop by kTick at most; the watchdog's time is the loop's own.
class CompletionLoop {
 public:
  using SlotMaker = Slot (*)(std::shared_ptr<void> link, Card* card, uint32_t index);

  // 'state' goes kStarting -> kReady and kReady -> kRestarting here; the other
  // steps are the supervisor's. Everything given must outlive the loop.
  CompletionLoop(Card* card, SlotMaker make_slot, CardListener* listener,
                 std::atomic<CardState>* state, const Clock* clock);
  // Completes what is left; the link must have been lost before.
  ~CompletionLoop();
  CompletionLoop(const CompletionLoop&) = delete;

  // Hot path, any thread.
  std::shared_ptr<Link> link() const { return cell_.Get(); }
  void RequestTurn();
  // A batch was submitted to a link that is lost.
  void AddOrphan(std::shared_ptr<Link> link);

  // The supervisor's thread.
  void Ready(std::shared_ptr<Link> link);
  // The process has ended because of 'why'. Returns when all its batches are
  // completed, so that one incarnation is over before the next begins.
  // 'suspect': nothing but the running batch explains the end.
  void Lost(std::shared_ptr<Link> link, const absl::Status& why, bool suspect);
  void ResidentLost(ExecutableId id, const absl::Status& why);

  const CardStats& stats() const { return stats_; }

 private:
  struct Event {
    std::shared_ptr<Link> ready;
    std::shared_ptr<Link> lost;
    absl::Status why;
    bool suspect = false;
    absl::Notification* done = nullptr;
    std::optional<ExecutableId> resident_lost;
  };

  void Run();
  void Post(Event event);
  void RingCurrent(const std::shared_ptr<Link>& link);
  // Each returns true if it did something.
  bool HandleEvents();
  bool HandleOrphans();
  bool CollectAll();
  bool CheckWatchdog(MonoNs now, MonoNs* wake);

  void Handle(Event& event);
  void Serve(std::shared_ptr<Link> link);
  // The batch that was being run when the process was lost.
  struct Interrupted {
    uint32_t slot = 0;
    MonoNs since = 0;
    bool suspect = false;  // it looks like the cause
  };
  void Lose(const absl::Status& why, std::optional<Interrupted> interrupted);
  void CompleteLost(const std::shared_ptr<Link>& link, std::optional<Interrupted> interrupted);
  void Deliver(const std::shared_ptr<Link>& link, Link::Collected done);
  void SetBellLink(std::shared_ptr<Link> link);
  channel::Doorbell CurrentBell();
  bool QuitNow();

  Card* const card_;
  const SlotMaker make_slot_;
  CardListener* const listener_;
  std::atomic<CardState>* const state_;
  const Clock* const clock_;
  CardStats stats_;

  LinkCell<Link> cell_;  // written by the loop's thread
  std::atomic<bool> turn_requested_{false};
  std::atomic<uint32_t> own_bell_{0};
  std::atomic<uint32_t> own_sleeping_{0};

  absl::Mutex mu_;
  std::deque<Event> events_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<Link>> orphans_ ABSL_GUARDED_BY(mu_);
  // On whose bell the loop sleeps; null: on its own.
  std::shared_ptr<Link> bell_link_ ABSL_GUARDED_BY(mu_);
  bool quit_ ABSL_GUARDED_BY(mu_) = false;

  // The loop's thread only.
  std::shared_ptr<Link> live_;
  uint64_t late_sequence_ = 0;  // the batch for which the loop overslept …
  MonoNs late_ns_ = 0;          // … and by how much

  std::thread thread_;
};

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_COMPLETION_LOOP_H_
