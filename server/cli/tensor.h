// A tensor as it travels: row-major, dense, little-endian whatever the host.
#ifndef BELFRY_SERVER_CLI_TENSOR_H_
#define BELFRY_SERVER_CLI_TENSOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/channel/dtype.h"

namespace belfry::cli {

struct Tensor {
  DataType dtype = DataType::kInvalid;
  std::vector<int64_t> shape;
  // BYTES: each element is its length (uint32) and that many bytes.
  std::string data;

  int64_t elements() const;
};

// One element. BOOL is a bool, signed and unsigned integers keep their sign,
// every floating type is a double, BYTES is a string.
using Element = std::variant<bool, int64_t, uint64_t, double, std::string>;

// Appends 'element' as 'dtype'. Integers must fit; a floating value may lose
// precision, but a number does not become a string or a truth value.
absl::Status AppendElement(const Element& element, DataType dtype, std::string* data);

// All elements in order. INVALID_ARGUMENT if data does not fit dtype and shape.
absl::StatusOr<std::vector<Element>> Elements(const Tensor& tensor);

// The same values as 'dtype', under the rules of AppendElement.
absl::StatusOr<Tensor> Convert(const Tensor& tensor, DataType dtype);

// "FP32 [2,30]"
std::string Describe(const Tensor& tensor);

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_TENSOR_H_
