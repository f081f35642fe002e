// Tensors as nested JSON lists, and as text for people.
#ifndef BELFRY_SERVER_CLI_TENSOR_JSON_H_
#define BELFRY_SERVER_CLI_TENSOR_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/cli/tensor.h"

namespace belfry::cli {

// The shape comes from the nesting, which must be even. Elements: numbers,
// true and false, strings (BYTES; "NaN", "Infinity", "-Infinity" where the
// dtype is floating), {"base64": "…"} for BYTES that are no text. kInvalid: the
// dtype comes from the elements too (INT64, FP32, BOOL, BYTES).
absl::StatusOr<Tensor> TensorFromJson(std::string_view text, DataType dtype);

// The inverse: TensorFromJson(TensorToJson(t).dump(), t.dtype) equals t, but for
// a tensor without elements, whose shape nesting cannot always tell.
absl::StatusOr<nlohmann::ordered_json> TensorToJson(const Tensor& tensor);

// "[[0.1, 0.2], [0.3, 0.4]]", one row a line; long dimensions are cut in the
// middle.
absl::StatusOr<std::string> TensorToText(const Tensor& tensor);

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_TENSOR_JSON_H_
