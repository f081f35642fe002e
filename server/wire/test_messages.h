// For the tests of this room: messages as bytes, cut into segments.
#ifndef BELFRY_SERVER_WIRE_TEST_MESSAGES_H_
#define BELFRY_SERVER_WIRE_TEST_MESSAGES_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/open_inference.pb.h"
#include "server/wire/byte_order.h"
#include "server/wire/request.h"

namespace belfry::wire {

// A copy of a message in pieces of its own, each on the heap at its exact size,
// so that a sanitizer sees a read beyond the end.
class Pieces {
 public:
  // 'cuts' ascending; a position may occur twice (an empty piece).
  Pieces(std::string_view bytes, std::vector<size_t> cuts) {
    cuts.push_back(bytes.size());
    size_t at = 0;
    for (const size_t cut : cuts) {
      const size_t n = cut - at;
      auto& piece = memory_.emplace_back(new uint8_t[n]);
      bytes.copy(reinterpret_cast<char*>(piece.get()), n, at);
      segments_.push_back({piece.get(), n});
      at = cut;
    }
  }
  explicit Pieces(std::string_view bytes) : Pieces(bytes, {}) {}

  std::span<const Segment> segments() const { return segments_; }

 private:
  std::vector<std::unique_ptr<uint8_t[]>> memory_;
  std::vector<Segment> segments_;
};

inline std::string BytesOf(const Payload& payload) {
  std::string out;
  for (const Segment& s : payload.segments) {
    out.append(reinterpret_cast<const char*>(s.data), s.size);
  }
  return out;
}

inline std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string out;
  if (!buffer.Dump(&slices).ok()) return out;
  for (const grpc::Slice& s : slices) {
    out.append(reinterpret_cast<const char*>(s.begin()), s.size());
  }
  return out;
}

// Elements as raw contents: little-endian whatever the host.
template <typename List>
std::string RawOfList(const List& values) {
  std::string out;
  for (const auto value : values) {
    char bytes[sizeof(value)];
    StoreLittle(bytes, value);
    out.append(bytes, sizeof(value));
  }
  return out;
}

template <typename T>
std::string RawOf(const std::vector<T>& values) {
  return RawOfList(values);
}

// BYTES elements as they travel.
inline std::string Elements(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& v : values) {
    for (int shift = 0; shift < 32; shift += 8) {
      out.push_back(static_cast<char>((v.size() >> shift) & 0xff));
    }
    out += v;
  }
  return out;
}

inline inference::ModelInferRequest::InferInputTensor* AddInput(
    inference::ModelInferRequest* request, const std::string& name, const std::string& type,
    const std::vector<int64_t>& shape) {
  auto* input = request->add_inputs();
  input->set_name(name);
  input->set_datatype(type);
  for (const int64_t d : shape) input->add_shape(d);
  return input;
}

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_TEST_MESSAGES_H_
