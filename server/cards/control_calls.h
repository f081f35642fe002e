// The requests on a card's control socket that wait for an answer.
#ifndef BELFRY_SERVER_CARDS_CONTROL_CALLS_H_
#define BELFRY_SERVER_CARDS_CONTROL_CALLS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "device/channel/control.h"
#include "server/base/clock.h"
#include "server/cards/watchdog.h"

namespace belfry::cards {

// One request and, once 'done' is notified, how it ended.
struct ControlCall {
  channel::Request request;  // the id is filled in
  std::string what;          // "loading card-fraud/1", for people
  // On success, in the supervisor's thread, before 'done': what must be
  // true from the very answer on (a resident is one, even if the card dies next).
  std::function<void()> on_ok;

  MonoNs started = 0;
  absl::Status status;
  absl::Notification done;
};

// Several calls may be under way at once. Callers block in Run(); the supervisor's
// thread alone touches the socket: it takes messages to send from here and
// brings the answers back. Thread-safe.
class ControlCalls {
 public:
  // 'wake' makes the supervisor look for messages to send.
  ControlCalls(std::string card, std::function<void()> wake, const Clock* clock)
      : card_(std::move(card)), wake_(std::move(wake)), clock_(clock) {}

  // Sends and waits for the end, which comes: an answer, the card's death or
  // its execution for being late. A card that takes no calls now is waited for,
  // at most for 'patience'.
  absl::Status Run(std::shared_ptr<ControlCall> call, absl::Duration patience);

  // The rest is the supervisor's.

  // The card is READY and takes calls / does not, until further notice.
  void Open();
  // 'why' is told to callers who lose patience.
  void SetUnavailable(const absl::Status& why);
  // For ever: callers are refused at once.
  void Stop();

  void Start(std::shared_ptr<ControlCall> call);
  // The next message to send, left in place until Sent().
  std::optional<channel::Request> NextToSend() const;
  void Sent();
  // INVALID_ARGUMENT if nobody waits for it.
  absl::Status Finish(const channel::Reply& reply);
  void FailOne(uint64_t id, const absl::Status& why);
  // The process ended because of 'why'. The oldest call was the one being
  // worked on, the others are told that they were not begun.
  void FailAll(const absl::Status& why);
  // The call that the card works on, with the deadline that 'limit' gives, and
  // what it is.
  std::optional<RunningItem> Running(absl::Duration limit, std::string* what) const;
  bool idle() const;

 private:
  void StartLocked(std::shared_ptr<ControlCall> call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string card_;
  const std::function<void()> wake_;
  const Clock* const clock_;

  mutable absl::Mutex mu_;
  bool open_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status unavailable_ ABSL_GUARDED_BY(mu_);
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  MonoNs last_answer_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<uint64_t> outgoing_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, std::shared_ptr<ControlCall>> calls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_CONTROL_CALLS_H_
