#include "server/rpc/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "device/channel/text.h"

namespace belfry::rpc {
namespace {

absl::Status Malformed(std::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", AbslView(text),
      "' is no address: expected HOST:PORT, [IPV6]:PORT or unix:PATH (port 0: any free one)"));
}

absl::StatusOr<ListenAddress> ParseUnix(std::string_view path) {
  if (path.empty()) return absl::InvalidArgumentError("'unix:' needs the path of a socket");
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the socket path has ", path.size(), " bytes, the system takes at most ",
                     sizeof(sockaddr_un::sun_path) - 1));
  }
  ListenAddress out;
  out.path = std::string(path);
  return out;
}

sockaddr_un UnixAddress(const ListenAddress& address) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  std::memcpy(out.sun_path, address.path.data(), address.path.size());
  return out;
}

absl::Status Refused(const ListenAddress& address, std::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address.ToString(), ": ", AbslView(why)));
}

absl::Status TryBind(const ListenAddress& address, const addrinfo& info) {
  const int fd = socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Refused(address, std::strerror(errno));
  const absl::Cleanup close_fd = [fd] { close(fd); };
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, info.ai_addr, info.ai_addrlen) != 0 || listen(fd, 1) != 0) {
    return Refused(address, std::strerror(errno));
  }
  return absl::OkStatus();
}

}  // namespace

bool ListenAddress::is_local() const {
  return is_unix() || host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

std::string ListenAddress::ToString() const {
  if (is_unix()) return absl::StrCat("unix:", path);
  const bool ipv6 = host.find(':') != std::string::npos;
  return ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text) {
  if (text.starts_with("unix:")) {
    std::string_view path = text.substr(5);
    if (path.starts_with("///")) path.remove_prefix(2);  // unix:///run/x.sock
    return ParseUnix(path);
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Malformed(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    if (host.find(':') == std::string_view::npos) return Malformed(text);
  } else if (host.find(':') != std::string_view::npos) {
    return Malformed(text);
  }
  ListenAddress out;
  out.host = std::string(host);
  if (host.empty() || port.find_first_not_of("0123456789") != std::string_view::npos ||
      !absl::SimpleAtoi(AbslView(port), &out.port) || out.port > 65535) {
    return Malformed(text);
  }
  return out;
}

absl::Status ExplainBindFailure(const ListenAddress& address) {
  if (address.is_unix()) {
    // Binding by hand would leave a file behind; the folder is what fails.
    const std::string folder = address.path.find('/') == std::string::npos
                                   ? "."
                                   : address.path.substr(0, address.path.rfind('/') + 1);
    if (access(folder.c_str(), W_OK) == 0) return absl::OkStatus();
    return Refused(address, absl::StrCat(folder, ": ", std::strerror(errno)));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) return Refused(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  return TryBind(address, *found);
}

absl::Status CheckUnixSocketFree(const ListenAddress& address) {
  if (!address.is_unix()) return absl::OkStatus();
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::OkStatus();
  const absl::Cleanup close_fd = [fd] { close(fd); };
  const sockaddr_un target = UnixAddress(address);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(absl::StrCat("cannot listen on ", address.ToString(),
                                               ": another process listens there"));
}

}  // namespace belfry::rpc
