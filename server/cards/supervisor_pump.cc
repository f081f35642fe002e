// The supervisor's descriptors: spawning the process, and one poll loop for its
// socket, its output and its end.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "server/cards/supervisor.h"
#include "server/telemetry/log.h"

namespace belfry::cards {
namespace {

// Descriptors in the child.
constexpr int kChannelFd = 3;
constexpr int kControlFd = 4;

// A process that exits closes its socket a moment before it is seen to be gone.
constexpr MonoNs kSocketGoneGrace = 1'000'000'000;

struct Pipe {
  UniqueFd read;   // non-blocking
  UniqueFd write;  // blocking: the child shares the flag
};

absl::StatusOr<Pipe> OpenPipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe2");
  Pipe pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
  if (fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0) return absl::ErrnoToStatus(errno, "fcntl");
  return pipe;
}

int PollMilliseconds(MonoNs now, MonoNs wake) {
  if (wake == kNever) return -1;
  return static_cast<int>(std::clamp<MonoNs>((wake - now + 999'999) / 1'000'000, 0, 60'000));
}

}  // namespace

absl::Status Supervisor::Spawn() {
  auto mapping = channel::Mapping::Create(config_.pool.arena_bytes, config_.pool.arena_bytes);
  if (!mapping.ok()) return mapping.status();
  auto sockets = channel::ControlSocket::CreatePair();
  if (!sockets.ok()) return sockets.status();
  auto pipe = OpenPipe();
  if (!pipe.ok()) return pipe.status();
  SpawnRequest request;
  request.argv = CardArguments(config_, kChannelFd, kControlFd);
  request.fds = {{pipe->write.get(), 1},
                 {pipe->write.get(), 2},
                 {mapping->fd(), kChannelFd},
                 {sockets->second.fd(), kControlFd}};
  auto process = ChildProcess::Spawn(request);
  if (!process.ok()) return process.status();
  now_.emplace();
  now_->socket = std::move(sockets->first);
  now_->output = CardOutput(std::move(pipe->read), config_.name);
  now_->link = std::make_shared<Link>(*std::move(mapping), *std::move(process));
  absl::MutexLock lock(&mu_);
  figures_.pid = now_->link->process().pid();
  return absl::OkStatus();
}

absl::Status Supervisor::Pump(const std::function<bool()>& done, MonoNs deadline) {
  for (;;) {
    if (now_->ended) return Reaped();
    if (done()) return absl::OkStatus();
    if (!now_->shutting_down && stopping()) return absl::CancelledError("stop");
    const MonoNs now = clock_->Now();
    if (now >= deadline) return absl::DeadlineExceededError("too late");
    SendMessages();
    MonoNs wake = std::min(deadline, CheckPatience(now));
    // Once it has passed, the caller has acted on it.
    if (now_->shutting_down && stop_deadline() > now) wake = std::min(wake, stop_deadline());
    PollOnce(wake);
  }
}

void Supervisor::PollOnce(MonoNs wake) {
  // poll(2) ignores negative descriptors.
  enum { kWake, kProcess, kSocket, kOutput, kCount };
  std::array<pollfd, kCount> fds;
  fds.fill({-1, 0, 0});
  fds[kWake] = {wake_.get(), POLLIN, 0};
  if (now_) {
    fds[kProcess] = {now_->link->process().pidfd(), POLLIN, 0};
    const short events = calls_.NextToSend() ? POLLIN | POLLOUT : POLLIN;
    if (now_->socket_gone == 0) fds[kSocket] = {now_->socket.fd(), events, 0};
    fds[kOutput] = {now_->output.fd(), POLLIN, 0};
  }
  if (poll(fds.data(), fds.size(), PollMilliseconds(clock_->Now(), wake)) <= 0) return;
  uint64_t count;
  if (fds[kWake].revents != 0) {
    [[maybe_unused]] const ssize_t n = read(wake_.get(), &count, sizeof count);
  }
  if (!now_) return;
  if (fds[kOutput].revents != 0) now_->output.Drain(clock_->Now());
  // What the process said before it ended counts.
  if ((fds[kSocket].revents & ~POLLOUT) != 0) ReadMessages();
  if (fds[kProcess].revents != 0) now_->ended = true;
}

void Supervisor::SendMessages() {
  while (now_->socket_gone == 0) {
    const std::optional<channel::Request> request = calls_.NextToSend();
    if (!request) return;
    const absl::Status sent =
        now_->socket.Send(channel::EncodeRequest(*request), absl::ZeroDuration());
    if (absl::IsDeadlineExceeded(sent)) return;  // its queue is full: POLLOUT tells
    if (absl::IsInvalidArgument(sent)) {
      calls_.FailOne(request->id, sent);
    } else if (sent.ok()) {
      calls_.Sent();
    } else {
      now_->socket_gone = clock_->Now();
    }
  }
}

void Supervisor::ReadMessages() {
  for (;;) {
    auto message = now_->socket.Receive(absl::ZeroDuration());
    if (absl::IsDeadlineExceeded(message.status())) return;
    if (absl::IsInvalidArgument(message.status())) {
      now_->link->Condemn(absl::StrCat("answers nonsense: ", message.status().message()));
      return;
    }
    if (!message.ok()) {
      now_->socket_gone = clock_->Now();
      return;
    }
    TakeMessage(*message);
    // A process that is to be killed anyway could go on for ever.
    if (!now_->link->condemned().empty()) return;
  }
}

void Supervisor::TakeMessage(const std::string& message) {
  const absl::Status status = now_->hello ? TakeReply(message) : TakeHello(message);
  if (!status.ok()) {
    now_->link->Condemn(absl::StrCat("answers nonsense: ", status.message()));
  }
}

absl::Status Supervisor::TakeHello(const std::string& message) {
  auto hello = channel::ParseHello(message);
  if (hello.ok()) {
    now_->hello = *std::move(hello);
    return absl::OkStatus();
  }
  // In place of a hello: why there will be none.
  const auto reply = channel::ParseReply(message);
  if (!reply.ok() || reply->status.ok()) return hello.status();
  now_->link->Condemn(absl::StrCat("cannot open the card: ", reply->status.message()));
  return absl::OkStatus();
}

absl::Status Supervisor::TakeReply(const std::string& message) {
  const auto reply = channel::ParseReply(message);
  if (!reply.ok()) return reply.status();
  {
    absl::MutexLock lock(&mu_);
    figures_.memory_used = reply->memory_used;
    figures_.memory_total = reply->memory_total;
  }
  return calls_.Finish(*reply);
}

MonoNs Supervisor::CheckPatience(MonoNs now) {
  MonoNs wake = kNever;
  if (now_->socket_gone != 0) {
    wake = now_->socket_gone + kSocketGoneGrace;
    if (now >= wake) {
      now_->link->Condemn("closed its control socket");
      wake = kNever;
    }
  }
  std::string what;
  const auto running = calls_.Running(config_.pool.control_timeout, &what);
  // The grace time rules while it shuts down.
  if (running && !now_->shutting_down && now_->link->condemned().empty()) {
    if (now >= running->deadline) {
      now_->link->Condemn(absl::StrCat("watchdog: ", what, " took longer than ",
                                       absl::FormatDuration(config_.pool.control_timeout)));
    } else {
      wake = std::min(wake, running->deadline);
    }
  }
  return wake;
}

bool Supervisor::EndedFromOutside() const {
  // A process that was not condemned here and ends by one of these signals was
  // ended by an operator, a service manager or the kernel's memory killer.
  const int signal = now_->link->process().end_signal();
  return now_->link->condemned().empty() &&
         (signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP);
}

absl::Status Supervisor::Reaped() {
  ReadMessages();
  now_->output.Drain(clock_->Now(), /*final=*/true);
  ChildProcess& process = now_->link->process();
  const std::string how = process.Reap(absl::ZeroDuration()).value_or("ended");
  std::string text = now_->link->condemned();
  if (text.empty()) {
    text = absl::StrCat("process ", process.pid(), " ", how);
    const std::string& last = now_->output.last_line();
    if (!last.empty()) absl::StrAppend(&text, "; its last words: ", last);
  }
  return absl::UnavailableError(
      AbslView(telemetry::Sanitize(absl::StrCat(config_.name, ": ", text), 2048)));
}

}  // namespace belfry::cards
