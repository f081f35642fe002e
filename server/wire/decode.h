// gRPC bytes -> Request.
#ifndef BELFRY_SERVER_WIRE_DECODE_H_
#define BELFRY_SERVER_WIRE_DECODE_H_

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/statusor.h"
#include "server/wire/request.h"

namespace belfry::wire {

struct DecodeLimits {
  size_t max_inputs = 128;
  size_t max_outputs = 128;
  size_t max_name_bytes = 1024;   // tensor names, ids, parameter keys
  size_t max_parameters = 64;
  size_t max_contents_bytes = 64 << 20;  // typed contents once unpacked
};

// Takes the buffer (its slices live on in the Request). Raw payloads are not
// copied. An error (INVALID_ARGUMENT) only if the bytes are no ModelInferRequest
// or exceed the limits. All other faults that can be told without the model's
// signature are in Request::faults, for Validate to tell them together with its
// own: raw and typed contents mixed, counts that differ, unknown datatype,
// negative dimension, BYTES elements that do not add up, typed field that does
// not fit the datatype, parameter of the wrong type. Such a request is OK here
// and refused by Validate. Thread-safe.
absl::StatusOr<Request> DecodeInferRequest(grpc::ByteBuffer buffer,
                                           const DecodeLimits& limits = {});

// Same, from memory that the caller keeps alive (tests, fuzzing).
absl::StatusOr<Request> DecodeInferRequest(std::span<const Segment> message,
                                           const DecodeLimits& limits = {});

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_DECODE_H_
