#include "server/cards/supervisor.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "server/cards/backoff.h"
#include "server/telemetry/log.h"

namespace belfry::cards {
namespace {

using telemetry::LogError;
using telemetry::LogInfo;
using telemetry::LogWarning;

// A killed process that the kernel does not let go of in this time (a device
// driver that hangs) is left behind at shutdown.
constexpr absl::Duration kUnkillable = absl::Seconds(10);

MonoNs After(MonoNs now, absl::Duration delay) {
  MonoNs out;
  return __builtin_add_overflow(now, absl::ToInt64Nanoseconds(delay), &out) ? kNever : out;
}

std::string Text(const absl::Status& status) { return std::string(status.message()); }

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create(CardConfig config,
                                                               CompletionLoop* loop,
                                                               Residents* residents,
                                                               std::atomic<CardState>* state,
                                                               const Clock* clock) {
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return absl::ErrnoToStatus(errno, "eventfd");
  return std::unique_ptr<Supervisor>(
      new Supervisor(std::move(config), loop, residents, state, clock, std::move(wake)));
}

Supervisor::Supervisor(CardConfig config, CompletionLoop* loop, Residents* residents,
                       std::atomic<CardState>* state, const Clock* clock, UniqueFd wake)
    : config_(std::move(config)),
      loop_(loop),
      residents_(residents),
      state_(state),
      clock_(clock),
      wake_(std::move(wake)),
      calls_(config_.name, [this] { Wake(); }, clock) {
  thread_ = std::thread([this] { Run(); });
}

Supervisor::~Supervisor() {
  RequestStop(absl::ZeroDuration());
  Join();
}

absl::Status Supervisor::Call(std::shared_ptr<ControlCall> call) {
  return calls_.Run(std::move(call), config_.pool.start_timeout);
}

absl::Status Supervisor::CallNow(std::shared_ptr<ControlCall> call) {
  return calls_.Run(std::move(call), absl::ZeroDuration());
}

void Supervisor::RequestStop(absl::Duration grace) {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    stop_deadline_ = std::min(stop_deadline_, After(clock_->Now(), grace));
  }
  Wake();
}

void Supervisor::Join() {
  if (thread_.joinable()) thread_.join();
}

bool Supervisor::WaitStarted(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(absl::Condition(&started_), timeout);
}

Supervisor::Figures Supervisor::figures() const {
  absl::MutexLock lock(&mu_);
  return figures_;
}

void Supervisor::Wake() const {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then a wake-up is pending.
  [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof one);
}

bool Supervisor::stopping() const {
  absl::MutexLock lock(&mu_);
  return stopping_;
}

MonoNs Supervisor::stop_deadline() const {
  absl::MutexLock lock(&mu_);
  return stop_deadline_;
}

void Supervisor::NoteStarted() {
  absl::MutexLock lock(&mu_);
  started_ = true;
}

void Supervisor::NoteFailure(const absl::Status& why) {
  absl::MutexLock lock(&mu_);
  started_ = true;
  ++figures_.restarts;
  figures_.last_error = telemetry::Sanitize(StdView(why.message()));
}

void Supervisor::Run() {
  int failures = 0;
  while (!stopping()) {
    state_->store(CardState::kStarting, std::memory_order_release);
    absl::Duration served;
    const absl::Status why = RunIncarnation(&served);
    if (stopping()) break;
    state_->store(CardState::kRestarting, std::memory_order_release);
    failures = FailuresAfter(failures, served);
    NoteFailure(why);
    const absl::Duration delay =
        RestartDelay(failures, config_.pool.backoff_first, config_.pool.backoff_limit);
    LogWarning("card lost", {{"card", config_.name},
                             {"reason", Text(why)},
                             {"failures", failures},
                             {"restart_in", absl::FormatDuration(delay)}});
    BackOff(delay);
  }
  state_->store(CardState::kStopped, std::memory_order_release);
  calls_.Stop();
  NoteStarted();
}

void Supervisor::BackOff(absl::Duration delay) {
  const MonoNs until = After(clock_->Now(), delay);
  while (!stopping() && clock_->Now() < until) PollOnce(until);
}

absl::Status Supervisor::RunIncarnation(absl::Duration* served) {
  *served = absl::ZeroDuration();
  absl::Status why = Spawn();
  if (!why.ok()) return why;
  std::set<ExecutableId> loaded;
  why = AwaitHello();
  if (why.ok()) why = ReloadResidents(&loaded);
  MonoNs ready = 0;
  if (why.ok()) {
    ready = clock_->Now();
    loop_->Ready(now_->link);
    calls_.Open();
    UnloadStale(loaded);
    NoteStarted();
    LogInfo("card ready", {{"card", config_.name}, {"pid", now_->link->process().pid()}});
    why = Pump([] { return false; }, kNever);
  }
  if (absl::IsCancelled(why)) why = ShutDown();

  calls_.SetUnavailable(why);
  const bool suspect = calls_.idle() && !now_->shutting_down && !EndedFromOutside();
  calls_.FailAll(why);
  if (ready != 0) {
    *served = absl::Nanoseconds(clock_->Now() - ready);
    CardState expected = CardState::kReady;
    state_->compare_exchange_strong(expected, CardState::kRestarting);
    loop_->Lost(now_->link, why, suspect);
  }
  now_.reset();
  absl::MutexLock lock(&mu_);
  figures_.pid = 0;
  figures_.memory_used = 0;
  return why;
}

absl::Status Supervisor::AwaitHello() {
  const absl::Status said = Pump([this] { return now_->hello.has_value(); },
                                 After(clock_->Now(), config_.pool.start_timeout));
  if (absl::IsDeadlineExceeded(said)) {
    return KillFor(absl::StrCat("did not say hello within ",
                                absl::FormatDuration(config_.pool.start_timeout)));
  }
  if (!said.ok()) return said;
  if (now_->hello->driver != config_.driver) {
    return KillFor(absl::StrCat("says that its driver is '", now_->hello->driver, "', expected '",
                                config_.driver, "'"));
  }
  return CallAndPump(MakeCall(channel::Op::kMemory, nullptr));
}

absl::Status Supervisor::ReloadResidents(std::set<ExecutableId>* loaded) {
  // One after the other, so that it is known which one kills the process.
  while (const std::optional<Resident> resident = residents_->NextToLoad(*loaded)) {
    loaded->insert(resident->spec.id);
    const absl::Status status = ReloadOne(*resident);
    if (status.ok()) continue;
    if (absl::IsUnavailable(status) && residents_->Strike(resident->spec.id)) {
      DropResident(resident->spec.id,
                   absl::UnavailableError(absl::StrCat(
                       "killed the card ", Residents::kMaxStrikes,
                       " times in a row while being loaded again: ", status.message())));
    }
    return status;
  }
  return absl::OkStatus();
}

absl::Status Supervisor::ReloadOne(const Resident& resident) {
  const ExecutableId id = resident.spec.id;
  const auto load = MakeCall(channel::Op::kLoad, &resident);
  if (absl::Status s = CallAndPump(load); !s.ok()) return s;
  if (!load->status.ok()) {
    DropResident(id, load->status);
    return absl::OkStatus();
  }
  // Warmed as before, so that the first batch after a restart is no slower than
  // the last one before it.
  for (const WarmShape& shape : resident.warmed) {
    const auto warm = MakeCall(channel::Op::kWarm, &resident);
    warm->request.shapes = {shape};
    if (absl::Status s = CallAndPump(warm); !s.ok()) return s;
    if (!warm->status.ok()) {
      LogWarning("resident not warm", {{"card", config_.name},
                                       {"executable", resident.spec.label},
                                       {"reason", Text(warm->status)}});
    }
  }
  residents_->ClearStrikes(id);
  return absl::OkStatus();
}

void Supervisor::UnloadStale(const std::set<ExecutableId>& loaded) {
  for (const ExecutableId id : loaded) {
    if (residents_->Contains(id)) continue;
    const auto call = MakeCall(channel::Op::kUnload, nullptr);
    call->request.executable = id;
    calls_.Start(call);
  }
}

void Supervisor::DropResident(ExecutableId id, const absl::Status& why) {
  residents_->Drop(id);
  LogError("resident lost",
           {{"card", config_.name}, {"executable", id}, {"reason", Text(why)}});
  loop_->ResidentLost(id, why);
}

std::shared_ptr<ControlCall> Supervisor::MakeCall(channel::Op op, const Resident* resident) const {
  auto call = std::make_shared<ControlCall>();
  call->request.op = op;
  call->what = std::string(channel::OpName(op));
  if (resident == nullptr) return call;
  call->request.executable = resident->spec.id;
  call->what = absl::StrCat(op == channel::Op::kLoad ? "loading " : "warming ",
                            resident->spec.label, " again");
  if (op == channel::Op::kLoad) {
    call->request.dir = resident->spec.artifact_dir;
    call->request.builtin = resident->spec.builtin;
    call->request.label = resident->spec.label;
  }
  return call;
}

absl::Status Supervisor::CallAndPump(const std::shared_ptr<ControlCall>& call) {
  calls_.Start(call);
  return Pump([&] { return call->done.HasBeenNotified(); }, kNever);
}

absl::Status Supervisor::ShutDown() {
  state_->store(CardState::kStopped, std::memory_order_release);
  calls_.SetUnavailable(absl::UnavailableError(absl::StrCat(config_.name, " is stopping")));
  now_->shutting_down = true;
  if (now_->hello) {
    calls_.Start(MakeCall(channel::Op::kShutdown, nullptr));
  } else {
    // It has nothing to finish and may not listen yet.
    now_->link->Condemn("stopped while starting");
  }
  // Re-read on every round: a second stop may have shortened it.
  absl::Status end = Pump([this] { return clock_->Now() >= stop_deadline(); }, kNever);
  if (end.ok()) {
    now_->link->Condemn("did not exit within the grace time");
    end = Pump([] { return false; }, After(clock_->Now(), kUnkillable));
    if (absl::IsDeadlineExceeded(end)) {
      LogError("card process cannot be killed",
               {{"card", config_.name}, {"pid", now_->link->process().pid()}});
    }
  }
  LogInfo("card stopped", {{"card", config_.name}, {"how", Text(end)}});
  return absl::UnavailableError(absl::StrCat(config_.name, " was stopped: ", end.message()));
}

absl::Status Supervisor::KillFor(const std::string& reason) {
  now_->link->Condemn(reason);
  return Pump([] { return false; }, kNever);
}

}  // namespace belfry::cards
