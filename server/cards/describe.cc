#include <errno.h>
#include <fcntl.h>  // O_CLOEXEC
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "device/channel/control.h"
#include "server/base/clock.h"
#include "server/cards/pool.h"
#include "server/cards/process.h"
#include "server/cards/unique_fd.h"
#include "server/telemetry/log.h"

namespace belfry::cards {
namespace {

// A driver may have a large library to load on a cold disk.
constexpr MonoNs kTimeout = 120'000'000'000;
constexpr size_t kMaxOutput = 64 << 10;

// Everything up to the end of the stream, the limit or the deadline; false for
// the latter two.
bool ReadAll(int fd, MonoNs deadline, std::string* out) {
  char buffer[4096];
  for (;;) {
    const MonoNs left = deadline - Clock::Real().Now();
    if (left <= 0) return false;
    pollfd p{fd, POLLIN, 0};
    if (poll(&p, 1, static_cast<int>(left / 1'000'000) + 1) <= 0) continue;
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    out->append(buffer, static_cast<size_t>(n));
    if (out->size() > kMaxOutput) return false;
  }
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> DescribeDriver(const std::string& card_binary,
                                                                  const std::string& driver) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe2");
  const UniqueFd from(fds[0]);
  UniqueFd to(fds[1]);
  // stderr goes where ours goes: there is no supervisor yet to log it.
  auto process = ChildProcess::Spawn(
      {{card_binary, "--driver", driver, "--describe"}, {{to.get(), 1}, {STDERR_FILENO, 2}}});
  if (!process.ok()) return process.status();
  to.Reset();

  const std::string what = absl::StrCat(card_binary, " --driver ", driver, " --describe");
  const MonoNs deadline = Clock::Real().Now() + kTimeout;
  std::string output;
  if (!ReadAll(from.get(), deadline, &output)) {
    return absl::InternalError(absl::StrCat(what, ": ",
                                            output.size() > kMaxOutput
                                                ? "prints more than 64 KiB"
                                                : "did not end within two minutes"));
  }
  const MonoNs left = std::max<MonoNs>(deadline - Clock::Real().Now(), 0);
  const std::string end = (*process)->Reap(absl::Nanoseconds(left)).value_or("did not end");
  if (end != "exited with code 0") {
    return absl::FailedPreconditionError(absl::StrCat(what, ": ", end));
  }
  auto described = channel::ParseDescribe(output);
  if (!described.ok()) {
    return absl::InternalError(absl::StrCat(what, " printed '", telemetry::Sanitize(output, 256),
                                            "': ", described.status().message()));
  }
  return described;
}

}  // namespace belfry::cards
