// Where a listener listens.
#ifndef BELFRY_SERVER_RPC_LISTEN_ADDRESS_H_
#define BELFRY_SERVER_RPC_LISTEN_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace belfry::rpc {

// HOST:PORT, [IPV6]:PORT or unix:PATH.
struct ListenAddress {
  std::string host;  // without brackets
  int port = 0;      // 0: any free one
  std::string path;  // of a Unix domain socket; else empty

  bool is_unix() const { return !path.empty(); }
  // Only this host can reach it. Names but "localhost" count as reachable from
  // outside: what they resolve to is not ours to say.
  bool is_local() const;
  // As gRPC and people write it.
  std::string ToString() const;
};

// INVALID_ARGUMENT with what came and what was expected.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text);

// gRPC does not tell why it could not bind. Tries it again by hand for the
// operating system's words; OK if it would work now.
absl::Status ExplainBindFailure(const ListenAddress& address);

// gRPC removes a socket file that lies in its way, also one that another server
// is listening on. ALREADY_EXISTS if somebody answers there.
absl::Status CheckUnixSocketFree(const ListenAddress& address);

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_LISTEN_ADDRESS_H_
