// Outputs -> gRPC bytes of a ModelInferResponse or ModelStreamInferResponse.
#ifndef BELFRY_SERVER_WIRE_ENCODE_H_
#define BELFRY_SERVER_WIRE_ENCODE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/manifest/manifest.h"
#include "server/wire/request.h"

namespace belfry::wire {

// Memory of one output on its way to the client: allocated once at its final
// size, filled by CopyOut, handed to gRPC without another copy. It is not
// zeroed: every byte must be written before it is sent. data() stays where it
// is when the buffer is moved. Not thread-safe, but disjoint bytes at data() may
// be written from several threads.
class OutputBuffer {
 public:
  OutputBuffer() = default;
  explicit OutputBuffer(size_t bytes);
  uint8_t* data();
  size_t size() const;
  grpc::Slice Release();  // leaves the buffer empty

 private:
  grpc_slice slice_{};
  bool owned_ = false;

 public:
  OutputBuffer(OutputBuffer&& other) noexcept;
  OutputBuffer& operator=(OutputBuffer&& other) noexcept;
  ~OutputBuffer();
};

struct ResponseTensor {
  std::string_view name;  // of the signature
  DataType dtype = DataType::kInvalid;
  Shape shape;
  OutputBuffer data;  // little-endian
};

// Applies the classification extension where asked for: 'tensor' becomes BYTES
// "value:index" or "value:index:label", top k of the last dimension, rows kept.
absl::StatusOr<ResponseTensor> Classify(ResponseTensor tensor, uint32_t k,
                                        std::span<const std::string> labels);

// Raw output contents, in the order of 'tensors'. 'version' is what served it.
grpc::ByteBuffer EncodeInferResponse(std::string_view model, std::string_view version,
                                     std::string_view id, std::vector<ResponseTensor> tensors);

// The same wrapped in ModelStreamInferResponse.
grpc::ByteBuffer EncodeStreamResponse(std::string_view model, std::string_view version,
                                      std::string_view id, std::vector<ResponseTensor> tensors);
// A failed request of a stream: error_message ("CODE: text"), and
// infer_response with model, version and id but no outputs, so that a client can
// tell which one failed.
grpc::ByteBuffer EncodeStreamError(std::string_view model, std::string_view version,
                                   std::string_view id, const absl::Status& status);

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_ENCODE_H_
