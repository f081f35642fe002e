// Keeps one card's process alive.
#ifndef BELFRY_SERVER_CARDS_SUPERVISOR_H_
#define BELFRY_SERVER_CARDS_SUPERVISOR_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "device/channel/control.h"
#include "server/base/clock.h"
#include "server/cards/card_output.h"
#include "server/cards/completion_loop.h"
#include "server/cards/control_calls.h"
#include "server/cards/link.h"
#include "server/cards/pool.h"
#include "server/cards/residents.h"
#include "server/cards/unique_fd.h"

namespace belfry::cards {

struct CardConfig {
  std::string name;      // "cpu:0"
  std::string driver;    // "cpu"
  int driver_index = 0;  // among the driver's cards
  std::vector<int> cores;  // empty: not pinned
  PoolOptions pool;
};

// The command line of the card's process.
std::vector<std::string> CardArguments(const CardConfig& config, int channel_fd, int control_fd);

// One thread from Create() to Join(). It starts the process, and must outlive
// it, because the process asks the kernel to be killed when the thread that
// started it ends. Everything the thread waits for is a descriptor: the
// process's end (pidfd), its control socket, its output, and an eventfd by which
// other threads wake it. It never sleeps to look again later.
//
// An incarnation goes: spawn, hello, reload of the residents, serve, end; each
// step is a plain function that pumps those descriptors until its own condition
// holds, so the order of a card's life can be read top down in RunIncarnation().
class Supervisor {
 public:
  struct Figures {
    int pid = 0;
    int restarts = 0;
    std::string last_error;
    uint64_t memory_used = 0;
    uint64_t memory_total = 0;
  };

  // 'loop', 'residents' and 'state' must outlive the supervisor; it alone steps
  // 'state' to kStarting and kStopped.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Create(CardConfig config, CompletionLoop* loop,
                                                            Residents* residents,
                                                            std::atomic<CardState>* state,
                                                            const Clock* clock);
  ~Supervisor();

  // Any thread but the supervisor's and the loop's.
  absl::Status Call(std::shared_ptr<ControlCall> call);
  // The same if the card takes calls now; UNAVAILABLE at once if not.
  absl::Status CallNow(std::shared_ptr<ControlCall> call);
  // Asks the process to finish and exit, and kills it after 'grace'. Returns at
  // once. A second call can only make the grace shorter.
  void RequestStop(absl::Duration grace);
  void Join();
  // True once the card has been READY or has failed to start once.
  bool WaitStarted(absl::Duration timeout);
  Figures figures() const;

 private:
  struct Incarnation {
    std::shared_ptr<Link> link;
    channel::ControlSocket socket;
    CardOutput output;
    std::optional<channel::Hello> hello;
    MonoNs socket_gone = 0;  // when the process closed its end; 0: it has not
    bool shutting_down = false;
    bool ended = false;
  };

  Supervisor(CardConfig config, CompletionLoop* loop, Residents* residents,
             std::atomic<CardState>* state, const Clock* clock, UniqueFd wake);
  void Run();

  // Returns why the incarnation ended, never OK; '*served': how long it was READY.
  absl::Status RunIncarnation(absl::Duration* served);
  absl::Status Spawn();
  absl::Status AwaitHello();
  absl::Status ReloadResidents(std::set<ExecutableId>* loaded);
  absl::Status ReloadOne(const Resident& resident);
  // Sends what was unloaded while residents were being reloaded after them.
  void UnloadStale(const std::set<ExecutableId>& loaded);
  absl::Status ShutDown();
  // Kills the process for 'reason' and returns how it ended.
  absl::Status KillFor(const std::string& reason);

  // Serves all descriptors until: 'done' (OK), a stop is asked for (CANCELLED),
  // the deadline passed (DEADLINE_EXCEEDED), the process has ended (UNAVAILABLE,
  // how).
  absl::Status Pump(const std::function<bool()>& done, MonoNs deadline);
  absl::Status CallAndPump(const std::shared_ptr<ControlCall>& call);
  // One poll(2) and what it brings; wakes at 'wake' at the latest.
  void PollOnce(MonoNs wake);
  void SendMessages();
  void ReadMessages();
  void TakeMessage(const std::string& message);
  absl::Status TakeHello(const std::string& message);
  absl::Status TakeReply(const std::string& message);
  // Kills a process that lets a call wait too long or has closed its socket.
  // Returns the next time to look.
  MonoNs CheckPatience(MonoNs now);
  absl::Status Reaped();
  // After Reaped: the process was ended by a signal that nobody here sent.
  bool EndedFromOutside() const;

  std::shared_ptr<ControlCall> MakeCall(channel::Op op, const Resident* resident) const;
  void DropResident(ExecutableId id, const absl::Status& why);
  void Wake() const;
  bool stopping() const;
  MonoNs stop_deadline() const;
  // Ends early if a stop is asked for.
  void BackOff(absl::Duration delay);
  void NoteFailure(const absl::Status& why);
  void NoteStarted();

  const CardConfig config_;
  CompletionLoop* const loop_;
  Residents* const residents_;
  std::atomic<CardState>* const state_;
  const Clock* const clock_;
  const UniqueFd wake_;
  ControlCalls calls_;

  mutable absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  MonoNs stop_deadline_ ABSL_GUARDED_BY(mu_) = kNever;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  Figures figures_ ABSL_GUARDED_BY(mu_);

  // The supervisor's thread only; set while a process exists.
  std::optional<Incarnation> now_;

  std::thread thread_;
};

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_SUPERVISOR_H_
