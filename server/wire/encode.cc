#include "server/wire/encode.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/common.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpc/slice.h>

#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/escaping.h"

namespace belfry::wire {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

namespace {

// Field numbers of ModelInferResponse, InferOutputTensor and
// ModelStreamInferResponse; all are below 16, so that a tag is one byte.
constexpr int kModelName = 1, kModelVersion = 2, kId = 3, kOutputs = 5, kRawContents = 6;
constexpr int kTensorName = 1, kTensorType = 2, kTensorShape = 3;
constexpr int kErrorMessage = 1, kInferResponse = 2;

// Up to so many payload bytes an answer is one slice: copying them is cheaper
// than the bookkeeping of several (README.md has the figures).
constexpr size_t kFlatPayload = 1024;

size_t FieldSize(size_t length) { return 1 + CodedOutputStream::VarintSize64(length) + length; }
size_t TextSize(std::string_view text) { return text.empty() ? 0 : FieldSize(text.size()); }

uint8_t* WritePrefix(int number, size_t length, uint8_t* out) {
  *out++ = static_cast<uint8_t>(
      WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
  return CodedOutputStream::WriteVarint64ToArray(length, out);
}

uint8_t* WriteBytes(const void* data, size_t size, uint8_t* out) {
  if (size > 0) std::memcpy(out, data, size);
  return out + size;
}

// proto3: an empty string is not written.
uint8_t* WriteText(int number, std::string_view text, uint8_t* out) {
  if (text.empty()) return out;
  return WriteBytes(text.data(), text.size(), WritePrefix(number, text.size(), out));
}

struct TensorSizes {
  size_t shape = 0;    // of the packed dimensions
  size_t message = 0;  // of the InferOutputTensor
};

TensorSizes Measure(const ResponseTensor& tensor) {
  TensorSizes sizes;
  for (const int64_t d : tensor.shape) {
    sizes.shape += CodedOutputStream::VarintSize64(static_cast<uint64_t>(d));
  }
  sizes.message = TextSize(tensor.name) + TextSize(DataTypeName(tensor.dtype)) +
                  (sizes.shape == 0 ? 0 : FieldSize(sizes.shape));
  return sizes;
}

uint8_t* WriteTensor(const ResponseTensor& tensor, const TensorSizes& sizes, uint8_t* out) {
  out = WritePrefix(kOutputs, sizes.message, out);
  out = WriteText(kTensorName, tensor.name, out);
  out = WriteText(kTensorType, DataTypeName(tensor.dtype), out);
  if (sizes.shape == 0) return out;
  out = WritePrefix(kTensorShape, sizes.shape, out);
  for (const int64_t d : tensor.shape) {
    out = CodedOutputStream::WriteVarint64ToArray(static_cast<uint64_t>(d), out);
  }
  return out;
}

grpc::Slice Own(grpc_slice slice) { return grpc::Slice(slice, grpc::Slice::STEAL_REF); }

struct Identity {
  std::string_view model, version, id;
  size_t Size() const { return TextSize(model) + TextSize(version) + TextSize(id); }
  uint8_t* Write(uint8_t* out) const {
    out = WriteText(kModelName, model, out);
    out = WriteText(kModelVersion, version, out);
    return WriteText(kId, id, out);
  }
};

grpc::ByteBuffer Encode(const Identity& who, std::vector<ResponseTensor> tensors, bool stream) {
  absl::InlinedVector<TensorSizes, 4> sizes;
  size_t head = who.Size();  // everything before the first payload field
  size_t raw = 0;            // payload fields
  size_t payload = 0;
  for (const ResponseTensor& t : tensors) {
    sizes.push_back(Measure(t));
    head += FieldSize(sizes.back().message);
    raw += FieldSize(t.data.size());
    payload += t.data.size();
  }
  const size_t response = head + raw;
  if (stream) head += FieldSize(response) - response;

  const bool flat = payload <= kFlatPayload;
  const size_t first =
      flat ? head + raw : head + (FieldSize(tensors[0].data.size()) - tensors[0].data.size());
  grpc_slice slice = grpc_slice_malloc(first);
  uint8_t* out = GRPC_SLICE_START_PTR(slice);
  if (stream) out = WritePrefix(kInferResponse, response, out);
  out = who.Write(out);
  for (size_t i = 0; i < tensors.size(); ++i) out = WriteTensor(tensors[i], sizes[i], out);
  if (flat) {
    for (ResponseTensor& t : tensors) {
      out = WritePrefix(kRawContents, t.data.size(), out);
      out = WriteBytes(t.data.data(), t.data.size(), out);
    }
    const grpc::Slice one = Own(slice);
    return grpc::ByteBuffer(&one, 1);
  }
  WritePrefix(kRawContents, tensors[0].data.size(), out);

  absl::InlinedVector<grpc::Slice, 8> slices;
  slices.push_back(Own(slice));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t bytes = tensors[i].data.size();
    if (i > 0) {
      // Few enough bytes for gRPC to keep in the slice itself.
      grpc_slice prefix = grpc_slice_malloc(FieldSize(bytes) - bytes);
      WritePrefix(kRawContents, bytes, GRPC_SLICE_START_PTR(prefix));
      slices.push_back(Own(prefix));
    }
    if (bytes > 0) slices.push_back(tensors[i].data.Release());
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace

OutputBuffer::OutputBuffer(size_t bytes) {
  if (bytes == 0) return;
  // 'large' keeps the bytes on the heap whatever their number, so that data()
  // stays where it is when the buffer is moved.
  slice_ = grpc_slice_malloc_large(bytes);
  owned_ = true;
}

uint8_t* OutputBuffer::data() { return owned_ ? GRPC_SLICE_START_PTR(slice_) : nullptr; }

size_t OutputBuffer::size() const { return owned_ ? GRPC_SLICE_LENGTH(slice_) : 0; }

grpc::Slice OutputBuffer::Release() {
  if (!owned_) return grpc::Slice();
  owned_ = false;
  return Own(std::exchange(slice_, grpc_slice{}));
}

OutputBuffer::OutputBuffer(OutputBuffer&& other) noexcept
    : slice_(std::exchange(other.slice_, grpc_slice{})),
      owned_(std::exchange(other.owned_, false)) {}

OutputBuffer& OutputBuffer::operator=(OutputBuffer&& other) noexcept {
  if (this != &other) {
    if (owned_) grpc_slice_unref(slice_);
    slice_ = std::exchange(other.slice_, grpc_slice{});
    owned_ = std::exchange(other.owned_, false);
  }
  return *this;
}

OutputBuffer::~OutputBuffer() {
  if (owned_) grpc_slice_unref(slice_);
}

grpc::ByteBuffer EncodeInferResponse(std::string_view model, std::string_view version,
                                     std::string_view id, std::vector<ResponseTensor> tensors) {
  return Encode({model, version, id}, std::move(tensors), /*stream=*/false);
}

grpc::ByteBuffer EncodeStreamResponse(std::string_view model, std::string_view version,
                                      std::string_view id, std::vector<ResponseTensor> tensors) {
  return Encode({model, version, id}, std::move(tensors), /*stream=*/true);
}

grpc::ByteBuffer EncodeStreamError(std::string_view model, std::string_view version,
                                   std::string_view id, const absl::Status& status) {
  // A stream has no status of its own for one request: the code goes first.
  std::string text = status.ToString(absl::StatusToStringMode::kWithNoExtraData);
  if (!google::protobuf::internal::IsStructurallyValidUTF8(text.data(),
                                                           static_cast<int>(text.size()))) {
    text = absl::CHexEscape(text);
  }
  const Identity who{model, version, id};
  const size_t response = who.Size();
  grpc_slice slice = grpc_slice_malloc(TextSize(text) + FieldSize(response));
  uint8_t* out = WriteText(kErrorMessage, text, GRPC_SLICE_START_PTR(slice));
  who.Write(WritePrefix(kInferResponse, response, out));
  const grpc::Slice one = Own(slice);
  return grpc::ByteBuffer(&one, 1);
}

}  // namespace belfry::wire
