// NumPy's .npy files: one tensor each. Of its element types those that the
// protocol has; no pickled objects.
#ifndef BELFRY_SERVER_CLI_NPY_H_
#define BELFRY_SERVER_CLI_NPY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/cli/tensor.h"

namespace belfry::cli {

// The bytes of a file, format versions 1 to 3, either byte order, either memory
// order. Fixed-length byte strings ("S8") become BYTES without their trailing
// NULs, as NumPy reads them.
absl::StatusOr<Tensor> ParseNpy(std::string_view file);

// Version 1, little-endian, C order. BF16, which NumPy does not have, is
// widened to float32. BYTES that end in NUL have no representation.
absl::StatusOr<std::string> FormatNpy(const Tensor& tensor);

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_NPY_H_
