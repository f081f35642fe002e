// The fields of a ModelInferRequest as they came, before anything is said
// about their meaning. Only decode.cc looks at it.
#ifndef BELFRY_SERVER_WIRE_ENVELOPE_H_
#define BELFRY_SERVER_WIRE_ENVELOPE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "server/wire/contents.h"
#include "server/wire/decode.h"
#include "server/wire/request.h"
#include "server/wire/wire_reader.h"

namespace belfry::wire {

// One entry of a parameters map.
struct Parameter {
  enum class Kind { kNone, kBool, kInt64, kString, kDouble, kUint64 };
  std::string_view key;
  Kind kind = Kind::kNone;
  bool bool_value = false;
  int64_t int64_value = 0;
  uint64_t uint64_value = 0;
  double double_value = 0;
  std::string_view string_value;
};

// Keys are unique: of several entries with one key the last stands.
struct ParameterList {
  std::vector<Parameter> entries;
  size_t seen = 0;  // replaced ones included: it is what the limit counts
};

struct EnvelopeInput {
  std::string_view name;
  std::string_view datatype;
  // All dimensions, but no more than kKeptDims of them; 'rank' counts on.
  Shape shape;
  size_t rank = 0;
  ParameterList parameters;
  std::unique_ptr<Contents> contents;  // null: absent
};

struct EnvelopeOutput {
  std::string_view name;
  ParameterList parameters;
};

// Views live as long as the segments and the reader.
struct Envelope {
  std::string_view model_name;
  std::string_view model_version;
  std::string_view id;
  ParameterList parameters;
  absl::InlinedVector<EnvelopeInput, 3> inputs;
  absl::InlinedVector<EnvelopeOutput, 2> outputs;
  absl::InlinedVector<Payload, 3> raw;
};

// Of a shape's dimensions so many are kept: more than any model has.
inline constexpr size_t kKeptDims = 64;

// Takes what protobuf's parser takes: fields in any order, unknown ones
// skipped, the last of a scalar's occurrences, merged sub-messages, packed and
// unpacked lists. False: the reader knows why.
bool ParseEnvelope(WireReader& reader, const DecodeLimits& limits, Envelope* envelope);

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_ENVELOPE_H_
