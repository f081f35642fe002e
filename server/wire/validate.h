// Checks a decoded request against the model's signature.
#ifndef BELFRY_SERVER_WIRE_VALIDATE_H_
#define BELFRY_SERVER_WIRE_VALIDATE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "device/manifest/manifest.h"
#include "server/wire/request.h"

namespace belfry::wire {

// Brings request->inputs into signature order and tells rows and symbols.
// INVALID_ARGUMENT carries every fault at once, the decoder's first and then those
// that the signature shows: "model 'm' version 3: input 'x':
// got FP64 [2,30], expected FP32 [batch,30]; input 'y' is missing; …".
// A client's own strings appear quoted, escaped and cut to 128 bytes. The bytes
// of every payload are checked against its shape here, and the shape's product
// against overflow: whoever holds a Binding may multiply the sizes. Never OK if
// request->faults is not empty.
absl::StatusOr<Binding> Validate(std::string_view model, std::string_view version,
                                 const Signature& signature, Request* request);

// What to answer when there is no signature to check against, because 'why' is
// all that the look-up of the request's model gave: 'why' itself, unless the
// decoder found faults. Then INVALID_ARGUMENT tells them and 'why' at once: the
// request would be refused whatever model it named.
absl::Status RefuseUnresolved(const Request& request, const absl::Status& why);

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_VALIDATE_H_
