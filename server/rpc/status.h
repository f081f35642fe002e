// absl::Status -> grpc::Status.
#ifndef BELFRY_SERVER_RPC_STATUS_H_
#define BELFRY_SERVER_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace belfry::rpc {

// Most bytes of a status message on the wire, percent-encoded as gRPC sends
// it. A client refuses trailers of more than 8 KiB by default and would then
// see RESOURCE_EXHAUSTED instead of our words.
inline constexpr size_t kMaxEncodedMessage = 4096;

// Valid UTF-8 (a byte that is not becomes '?') without control characters but
// tab and newline. Never longer than what came.
std::string CleanText(std::string_view text);

// The text as it may stand in a grpc-message header: clean, and at most
// kMaxEncodedMessage bytes once encoded. What is cut is replaced by a note that
// tells how much; both ends of the text are kept, since a compiler says what
// went wrong last.
std::string BoundMessage(std::string_view text);

// Codes map one to one.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_STATUS_H_
