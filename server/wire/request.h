// A ModelInferRequest once decoded: names, shapes and views of the payload,
// which stays where gRPC put it. No protobuf type leaves this room.
#ifndef BELFRY_SERVER_WIRE_REQUEST_H_
#define BELFRY_SERVER_WIRE_REQUEST_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "device/channel/dtype.h"
#include "server/wire/faults.h"

namespace belfry::wire {

using Shape = absl::InlinedVector<int64_t, 6>;

struct Segment {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

// The bytes of one tensor as they came, possibly in several pieces (gRPC cuts
// a message into slices). Valid as long as the request that owns it.
struct Payload {
  absl::InlinedVector<Segment, 2> segments;
  size_t size = 0;
};

struct RequestTensor {
  std::string name;
  DataType dtype = DataType::kInvalid;
  Shape shape;
  // Little-endian, as on the wire, whatever the host. A tensor that came as
  // typed 'contents' has been brought into the same form by the decoder.
  Payload payload;
  // What Request::faults tells of this tensor already, so that Validate does not
  // say it again in other words; an unknown datatype is kInvalid. They silence a
  // complaint, never a refusal.
  bool shape_refused = false;
  bool payload_refused = false;
};

struct RequestedOutput {
  std::string name;
  uint32_t classification = 0;  // top-k; 0: the tensor itself
};

// Keeps the memory behind the payloads alive (gRPC slices, decoded contents).
// Destroying it may run gRPC's deallocation; any thread may do so.
class PayloadOwner {
 public:
  virtual ~PayloadOwner() = default;
};

struct Request {
  std::string model_name;
  std::string model_version;  // "", "3", "@champion"
  std::string id;
  // Parameters that mean something here; others are refused or ignored as
  // README.md of this room says.
  uint32_t priority = 0;      // 0: the model's default; 1 is the most urgent
  int64_t timeout_us = 0;     // 0: none
  std::vector<RequestTensor> inputs;      // after Validate: in signature order
  std::vector<RequestedOutput> outputs;   // empty: all, in signature order
  std::unique_ptr<PayloadOwner> owner;
  // What the decoder found wrong. A request with faults never becomes a Binding:
  // Validate begins its own list with them. The fields above hold what could be
  // read, so that it can tell the rest as well.
  FaultList faults;
};

// What Validate found out about a request's shapes.
struct Binding {
  int64_t rows = 1;  // along the batch axis; 1 for an unbatched model
  // Value of each symbol of Signature::symbols but the batch symbol, in map
  // order.
  absl::InlinedVector<int64_t, 4> symbols;
  // Requests may be joined only if their keys are equal. 0 rows never occur.
  // Made of everything but the batch axis: for an ordinary model the symbol
  // values, for 'echo' dtype, rank and trailing dimensions.
  std::string shape_key;
  // False: must be executed alone even if the model batches: echo with BYTES or
  // a scalar (rows is 1 then), an input that is BYTES, has no batch axis, or has
  // a size that only the compiled code can check.
  bool joinable = true;
};

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_REQUEST_H_
