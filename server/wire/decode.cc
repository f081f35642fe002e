#include "server/wire/decode.h"

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/channel/layout.h"
#include "server/base/checked.h"
#include "server/wire/byte_order.h"
#include "server/wire/envelope.h"
#include "server/wire/faults.h"
#include "server/wire/parameters.h"
#include "server/wire/text.h"
#include "server/wire/wire_reader.h"

namespace belfry::wire {

namespace {

// gRPC's slices and unpacked contents. A small slice holds its bytes in
// itself, so slices are put here first and never moved again.
struct Owner final : PayloadOwner {
  grpc::Slice single;
  std::vector<grpc::Slice> many;
  std::vector<std::vector<uint8_t>> contents;
};

// Reads forward over a payload that may be cut anywhere.
class PayloadCursor {
 public:
  explicit PayloadCursor(const Payload& payload) : payload_(payload) {}

  size_t left() const { return payload_.size - taken_; }

  // 'bytes' must not be more than left().
  void Read(uint8_t* out, size_t bytes) {
    Step(bytes, [&](const uint8_t* from, size_t n) {
      std::memcpy(out, from, n);
      out += n;
    });
  }
  void Skip(size_t bytes) {
    Step(bytes, [](const uint8_t*, size_t) {});
  }

 private:
  template <typename Use>
  void Step(size_t bytes, Use&& use) {
    taken_ += bytes;
    while (bytes > 0) {
      const Segment& s = payload_.segments[segment_];
      const size_t n = std::min(bytes, s.size - offset_);
      use(s.data + offset_, n);
      bytes -= n;
      offset_ += n;
      if (offset_ == s.size) {
        ++segment_;
        offset_ = 0;
      }
    }
  }

  const Payload& payload_;
  size_t segment_ = 0;
  size_t offset_ = 0;
  size_t taken_ = 0;
};

// One input on its way from the envelope to the request.
class InputDecoder {
 public:
  InputDecoder(EnvelopeInput& from, RequestTensor& to, FaultList& faults)
      : from_(from), to_(to), faults_(faults) {}

  // 'raw' is the input's entry of raw_input_contents; null: which one is its own
  // cannot be told.
  void Decode(Payload* raw, bool raw_in_use, Owner* owner) {
    to_.name = from_.name;
    CheckInputParameters(from_.parameters, from_.name, &faults_);
    ReadType();
    ReadShape();
    const bool typed = from_.contents != nullptr && !from_.contents->empty();
    if (raw_in_use) {
      if (typed) {
        PayloadFault("has typed contents while raw_input_contents is used, expected one of the "
                     "two");
      } else if (raw == nullptr) {
        to_.payload_refused = true;  // the counts that differ are a fault of the request
      } else {
        to_.payload = std::move(*raw);
        if (to_.dtype == DataType::kBytes) CheckBytes();
      }
    } else if (typed) {
      TakeContents(owner);
    } else if (elements_ && *elements_ > 0) {
      PayloadFault("has no data, expected raw_input_contents or contents");
    }
  }

 private:
  template <typename... Args>
  void Fault(const Args&... args) {
    faults_.Add("input ", Quote(from_.name), ": ", args...);
  }
  template <typename... Args>
  void ShapeFault(const Args&... args) {
    to_.shape_refused = true;
    Fault(args...);
  }
  template <typename... Args>
  void PayloadFault(const Args&... args) {
    to_.payload_refused = true;
    Fault(args...);
  }

  void ReadType() {
    if (from_.name.empty()) Fault("has no name");
    to_.dtype = ParseDataType(from_.datatype).value_or(DataType::kInvalid);
    if (to_.dtype != DataType::kInvalid) return;
    std::string known;
    for (int i = 1; i < kDataTypeCount; ++i) {
      Append(&known, i > 1 ? ", " : "", DataTypeName(static_cast<DataType>(i)));
    }
    Fault("got datatype ", Quote(from_.datatype), ", expected one of ", known);
  }

  void ReadShape() {
    if (from_.rank > channel::kMaxRank) {
      ShapeFault("got ", from_.rank, " dimensions, expected at most ", channel::kMaxRank);
      return;
    }
    to_.shape = std::move(from_.shape);
    for (size_t i = 0; i < to_.shape.size(); ++i) {
      if (to_.shape[i] >= 0) continue;
      ShapeFault("got shape ", ShapeText(to_.shape), ", expected no negative dimension");
      return;
    }
    elements_ = CheckedElementCount(to_.shape);
    const int64_t width = std::max<int64_t>(1, static_cast<int64_t>(DataTypeSize(to_.dtype)));
    if (!elements_ || !CheckedMul(*elements_, width)) {
      elements_.reset();
      ShapeFault("got shape ", ShapeText(to_.shape), ", expected a size that fits 63 bits");
    }
  }

  void TakeContents(Owner* owner) {
    if (to_.dtype == DataType::kInvalid) {  // noted already
      to_.payload_refused = true;
      return;
    }
    const int expected = ContentsFieldFor(to_.dtype);
    const std::string_view type = DataTypeName(to_.dtype);
    Contents::Field* chosen = nullptr;
    bool other = false;
    for (Contents::Field& field : from_.contents->fields()) {
      if (field.number == expected) {
        chosen = &field;
      } else if (field.count > 0) {
        other = true;
        PayloadFault("got ", ContentsFieldName(field.number), ", expected ",
                     ContentsFieldName(expected), " for ", type);
      }
    }
    if (chosen == nullptr || other) return;
    if (elements_ && static_cast<uint64_t>(*elements_) != chosen->count) {
      PayloadFault("got ", chosen->count, " elements in ", ContentsFieldName(expected),
                   ", expected ", *elements_, " for shape ", ShapeText(to_.shape));
    }
    if (chosen->view.size > 0) {
      to_.payload = std::move(chosen->view);
      return;
    }
    int64_t value;
    const int64_t bad = NarrowContents(to_.dtype, &chosen->bytes, &value);
    if (bad >= 0) {
      PayloadFault("element ", bad, " of ", ContentsFieldName(expected), " is ", value,
                   ", expected the range of ", type);
    }
    const auto& bytes = owner->contents.emplace_back(std::move(chosen->bytes));
    to_.payload.size = bytes.size();
    if (!bytes.empty()) to_.payload.segments.push_back({bytes.data(), bytes.size()});
  }

  // Walks the elements, each a little-endian uint32 and that many bytes.
  void CheckBytes() {
    if (!elements_) return;
    PayloadCursor cursor(to_.payload);
    int64_t count = 0;
    for (; cursor.left() > 0; ++count) {
      uint8_t prefix[sizeof(uint32_t)];
      if (cursor.left() < sizeof(prefix)) {
        PayloadFault("element ", count, " begins ", cursor.left(),
                     " bytes before the end, expected a length of 4 bytes");
        return;
      }
      cursor.Read(prefix, sizeof(prefix));
      const uint32_t length = LoadLittle<uint32_t>(prefix);
      if (length > cursor.left()) {
        PayloadFault("element ", count, " has length ", length, ", expected at most ",
                     cursor.left(), ", which is what is left");
        return;
      }
      cursor.Skip(length);
    }
    if (count != *elements_) {
      PayloadFault("got ", count, " BYTES elements, expected ", *elements_, " for shape ",
                   ShapeText(to_.shape));
    }
  }

  EnvelopeInput& from_;
  RequestTensor& to_;
  FaultList& faults_;
  // nullopt: the shape is at fault.
  std::optional<int64_t> elements_;
};

void DecodeInputs(Envelope& envelope, Request* request, Owner* owner, FaultList* faults) {
  const bool raw_in_use = !envelope.raw.empty();
  const bool paired = envelope.raw.size() == envelope.inputs.size();
  if (raw_in_use && !paired) {
    faults->Add("got ", envelope.raw.size(), " raw_input_contents, expected ",
                envelope.inputs.size(), ", one for each input");
  }
  request->inputs.resize(envelope.inputs.size());
  for (size_t i = 0; i < envelope.inputs.size(); ++i) {
    Payload* raw = paired ? &envelope.raw[i] : nullptr;
    InputDecoder(envelope.inputs[i], request->inputs[i], *faults).Decode(raw, raw_in_use, owner);
  }
}

void DecodeOutputs(const Envelope& envelope, Request* request, FaultList* faults) {
  request->outputs.reserve(envelope.outputs.size());
  for (const EnvelopeOutput& from : envelope.outputs) {
    RequestedOutput& to = request->outputs.emplace_back();
    to.name = from.name;
    ApplyOutputParameters(from.parameters, &to, faults);
  }
}

absl::StatusOr<Request> Decode(std::span<const Segment> message, const DecodeLimits& limits,
                               std::unique_ptr<Owner> owner) {
  size_t total = 0;
  for (const Segment& s : message) total += s.size;
  if (total > INT_MAX) {
    return absl::InvalidArgumentError(
        Cat("the request has ", total, " bytes, expected at most ", INT_MAX));
  }
  WireReader reader(message, static_cast<int>(total));
  Envelope envelope;
  if (!ParseEnvelope(reader, limits, &envelope)) {
    return absl::InvalidArgumentError(
        envelope.model_name.empty()
            ? reader.fault()
            : Cat("model ", Quote(envelope.model_name), ": ", reader.fault()));
  }
  Request request;
  request.model_name = envelope.model_name;
  request.model_version = envelope.model_version;
  request.id = envelope.id;
  if (request.model_name.empty()) request.faults.Add("model_name is empty");
  ApplyRequestParameters(envelope.parameters, &request, &request.faults);
  DecodeInputs(envelope, &request, owner.get(), &request.faults);
  DecodeOutputs(envelope, &request, &request.faults);
  request.owner = std::move(owner);
  return request;
}

Segment SegmentOf(const grpc::Slice& slice) { return {slice.begin(), slice.size()}; }

}  // namespace

absl::StatusOr<Request> DecodeInferRequest(grpc::ByteBuffer buffer, const DecodeLimits& limits) {
  auto owner = std::make_unique<Owner>();
  if (!buffer.Valid()) return Decode({}, limits, std::move(owner));
  if (buffer.TrySingleSlice(&owner->single).ok()) {
    const Segment segment = SegmentOf(owner->single);
    return Decode({&segment, 1}, limits, std::move(owner));
  }
  if (!buffer.Dump(&owner->many).ok()) {
    return absl::InvalidArgumentError("the request's bytes cannot be read");
  }
  absl::InlinedVector<Segment, 16> segments;
  for (const grpc::Slice& slice : owner->many) segments.push_back(SegmentOf(slice));
  return Decode(segments, limits, std::move(owner));
}

absl::StatusOr<Request> DecodeInferRequest(std::span<const Segment> message,
                                           const DecodeLimits& limits) {
  return Decode(message, limits, std::make_unique<Owner>());
}

}  // namespace belfry::wire
