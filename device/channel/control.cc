#include "device/channel/control.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace belfry::channel {
namespace {

int64_t NowNs() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec;
}

// Waits until 'fd' is ready for 'events' (or broken).
absl::Status Await(int fd, short events, absl::Duration timeout) {
  const bool forever = timeout == absl::InfiniteDuration();
  const int64_t until = forever ? 0 : NowNs() + absl::ToInt64Nanoseconds(timeout);
  for (;;) {
    int64_t ms = -1;
    if (!forever) {
      ms = std::clamp<int64_t>((until - NowNs() + 999'999) / 1'000'000, 0, 1'000'000);
    }
    pollfd p{fd, events, 0};
    const int n = poll(&p, 1, static_cast<int>(ms));
    if (n > 0) return absl::OkStatus();
    if (n < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "control channel: poll");
    if (n == 0 && NowNs() >= until) {
      return absl::DeadlineExceededError(
          absl::StrCat("control channel: nothing within ", absl::FormatDuration(timeout)));
    }
  }
}

bool Gone(int error) { return error == EPIPE || error == ECONNRESET || error == ENOTCONN; }

}  // namespace

absl::StatusOr<std::pair<ControlSocket, ControlSocket>> ControlSocket::CreatePair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::ErrnoToStatus(errno, "control channel: socketpair");
  }
  // One whole message must fit, whatever the system's default.
  const int bytes = 2 * static_cast<int>(kMaxControlBytes);
  for (int fd : fds) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  return std::pair(ControlSocket(fds[0]), ControlSocket(fds[1]));
}

ControlSocket& ControlSocket::operator=(ControlSocket&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) close(fd_);
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

ControlSocket::~ControlSocket() {
  if (fd_ >= 0) close(fd_);
}

absl::Status ControlSocket::Send(std::string_view message, absl::Duration timeout) {
  if (message.empty() || message.size() > kMaxControlBytes) {
    return absl::InvalidArgumentError(absl::StrCat("control channel: message of ",
                                                   message.size(), " bytes, expected 1 to ",
                                                   kMaxControlBytes));
  }
  for (;;) {
    if (send(fd_, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
      return absl::OkStatus();
    }
    if (Gone(errno)) return absl::UnavailableError("control channel: the other side is gone");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return absl::ErrnoToStatus(errno, "control channel: send");
    if (auto s = Await(fd_, POLLOUT, timeout); !s.ok()) return s;
  }
}

absl::StatusOr<std::string> ControlSocket::Receive(absl::Duration timeout) {
  std::string message(kMaxControlBytes, '\0');
  for (;;) {
    // MSG_TRUNC: the message's full length, however much of it fits.
    const ssize_t n =
        recv(fd_, message.data(), message.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (n > static_cast<ssize_t>(kMaxControlBytes)) {
      return absl::InvalidArgumentError(absl::StrCat("control channel: message of ", n,
                                                     " bytes, expected at most ",
                                                     kMaxControlBytes));
    }
    if (n > 0) {
      message.resize(static_cast<size_t>(n));
      return message;
    }
    if (n == 0 || Gone(errno)) {
      return absl::UnavailableError("control channel: the other side is gone");
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return absl::ErrnoToStatus(errno, "control channel: receive");
    if (auto s = Await(fd_, POLLIN, timeout); !s.ok()) return s;
  }
}

void ControlSocket::Shutdown() {
  if (fd_ >= 0) shutdown(fd_, SHUT_RDWR);
}

}  // namespace belfry::channel
