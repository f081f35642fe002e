#include "server/wire/envelope.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <bit>
#include <limits>
#include <utility>

#include "server/wire/text.h"


namespace belfry::wire {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

namespace {

constexpr uint32_t Tag(int number, WireFormatLite::WireType type) {
  return WireFormatLite::MakeTag(number, type);
}
constexpr auto kVarint = WireFormatLite::WIRETYPE_VARINT;
constexpr auto kFixed64 = WireFormatLite::WIRETYPE_FIXED64;
constexpr auto kDelimited = WireFormatLite::WIRETYPE_LENGTH_DELIMITED;

// Parses one delimited sub-message with 'parse', a callable that reads fields
// up to the reader's limit.
template <typename Parse>
bool SubMessage(WireReader& reader, Parse&& parse) {
  CodedInputStream::Limit limit;
  if (!reader.Enter(&limit) || !parse()) return false;
  reader.Leave(limit);
  return true;
}

bool TooMany(WireReader& reader, std::string_view what, size_t limit) {
  return reader.Refuse(Cat("more than ", limit, " ", what));
}

bool ParseValue(WireReader& reader, Parameter* parameter) {
  while (reader.More()) {
    uint32_t tag;
    uint64_t number;
    if (!reader.ReadTag(&tag)) return false;
    switch (tag) {
      case Tag(1, kVarint):
        if (!reader.ReadVarint(&number)) return false;
        parameter->kind = Parameter::Kind::kBool;
        parameter->bool_value = number != 0;
        break;
      case Tag(2, kVarint):
        if (!reader.ReadVarint(&number)) return false;
        parameter->kind = Parameter::Kind::kInt64;
        parameter->int64_value = static_cast<int64_t>(number);
        break;
      case Tag(3, kDelimited):
        if (!reader.ReadText("string_param", std::numeric_limits<size_t>::max(),
                             &parameter->string_value)) {
          return false;
        }
        parameter->kind = Parameter::Kind::kString;
        break;
      case Tag(4, kFixed64):
        if (!reader.ReadFixed64(&number)) return false;
        parameter->kind = Parameter::Kind::kDouble;
        parameter->double_value = std::bit_cast<double>(number);
        break;
      case Tag(5, kVarint):
        if (!reader.ReadVarint(&number)) return false;
        parameter->kind = Parameter::Kind::kUint64;
        parameter->uint64_value = number;
        break;
      default:
        if (!reader.SkipField(tag)) return false;
    }
  }
  return true;
}

bool ParseEntry(WireReader& reader, const DecodeLimits& limits, Parameter* parameter) {
  while (reader.More()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return false;
    bool ok;
    switch (tag) {
      case Tag(1, kDelimited):
        ok = reader.ReadText("a parameter's key", limits.max_name_bytes, &parameter->key);
        break;
      case Tag(2, kDelimited):
        ok = SubMessage(reader, [&] { return ParseValue(reader, parameter); });
        break;
      default:
        ok = reader.SkipField(tag);
    }
    if (!ok) return false;
  }
  return true;
}

bool ParseParameter(WireReader& reader, const DecodeLimits& limits, ParameterList* list) {
  if (++list->seen > limits.max_parameters) {
    return TooMany(reader, "parameters", limits.max_parameters);
  }
  Parameter parameter;
  if (!SubMessage(reader, [&] { return ParseEntry(reader, limits, &parameter); })) return false;
  for (Parameter& other : list->entries) {
    if (other.key == parameter.key) {
      other = parameter;
      return true;
    }
  }
  list->entries.push_back(parameter);
  return true;
}

bool ParseDim(WireReader& reader, EnvelopeInput* input) {
  uint64_t dim;
  if (!reader.ReadVarint(&dim)) return false;
  if (input->rank++ < kKeptDims) input->shape.push_back(static_cast<int64_t>(dim));
  return true;
}

bool ParsePackedShape(WireReader& reader, EnvelopeInput* input) {
  int length;
  if (!reader.ReadLength(&length)) return false;
  const auto limit = reader.Push(length);
  while (reader.More()) {
    if (!ParseDim(reader, input)) return false;
  }
  reader.Pop(limit);
  return true;
}

bool ParseInput(WireReader& reader, const DecodeLimits& limits, size_t* budget,
                EnvelopeInput* input) {
  while (reader.More()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return false;
    bool ok;
    switch (tag) {
      case Tag(1, kDelimited):
        ok = reader.ReadText("an input's name", limits.max_name_bytes, &input->name);
        break;
      case Tag(2, kDelimited):
        ok = reader.ReadText("an input's datatype", limits.max_name_bytes, &input->datatype);
        break;
      case Tag(3, kDelimited):
        ok = ParsePackedShape(reader, input);
        break;
      case Tag(3, kVarint):
        ok = ParseDim(reader, input);
        break;
      case Tag(4, kDelimited):
        ok = ParseParameter(reader, limits, &input->parameters);
        break;
      case Tag(5, kDelimited):
        if (!input->contents) input->contents = std::make_unique<Contents>();
        ok = SubMessage(reader, [&] { return input->contents->Parse(reader, budget); });
        break;
      default:
        ok = reader.SkipField(tag);
    }
    if (!ok) return false;
  }
  return true;
}

bool ParseOutput(WireReader& reader, const DecodeLimits& limits, EnvelopeOutput* output) {
  while (reader.More()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return false;
    bool ok;
    switch (tag) {
      case Tag(1, kDelimited):
        ok = reader.ReadText("an output's name", limits.max_name_bytes, &output->name);
        break;
      case Tag(2, kDelimited):
        ok = ParseParameter(reader, limits, &output->parameters);
        break;
      default:
        ok = reader.SkipField(tag);
    }
    if (!ok) return false;
  }
  return true;
}

bool ParseRaw(WireReader& reader, const DecodeLimits& limits, Envelope* envelope) {
  int length;
  if (!reader.ReadLength(&length)) return false;
  if (envelope->raw.size() >= limits.max_inputs) {
    return TooMany(reader, "raw_input_contents", limits.max_inputs);
  }
  return reader.ReadPayload(length, &envelope->raw.emplace_back());
}

bool ParseField(WireReader& reader, const DecodeLimits& limits, uint32_t tag, size_t* budget,
                Envelope* envelope) {
  switch (tag) {
    case Tag(1, kDelimited):
      return reader.ReadText("model_name", limits.max_name_bytes, &envelope->model_name);
    case Tag(2, kDelimited):
      return reader.ReadText("model_version", limits.max_name_bytes, &envelope->model_version);
    case Tag(3, kDelimited):
      return reader.ReadText("id", limits.max_name_bytes, &envelope->id);
    case Tag(4, kDelimited):
      return ParseParameter(reader, limits, &envelope->parameters);
    case Tag(5, kDelimited): {
      if (envelope->inputs.size() >= limits.max_inputs) {
        return TooMany(reader, "inputs", limits.max_inputs);
      }
      EnvelopeInput* input = &envelope->inputs.emplace_back();
      return SubMessage(reader, [&] { return ParseInput(reader, limits, budget, input); });
    }
    case Tag(6, kDelimited): {
      if (envelope->outputs.size() >= limits.max_outputs) {
        return TooMany(reader, "outputs", limits.max_outputs);
      }
      EnvelopeOutput* output = &envelope->outputs.emplace_back();
      return SubMessage(reader, [&] { return ParseOutput(reader, limits, output); });
    }
    case Tag(7, kDelimited):
      return ParseRaw(reader, limits, envelope);
    default:
      return reader.SkipField(tag);
  }
}

}  // namespace

bool ParseEnvelope(WireReader& reader, const DecodeLimits& limits, Envelope* envelope) {
  size_t budget = limits.max_contents_bytes;
  while (reader.More()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag) || !ParseField(reader, limits, tag, &budget, envelope)) {
      return false;
    }
  }
  return true;
}

}  // namespace belfry::wire
