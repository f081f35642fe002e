// Sizes that are expressions in symbols, such as "2*seq" or "(seq + 7)//8".
#ifndef BELFRY_DEVICE_MANIFEST_EXPRESSION_H_
#define BELFRY_DEVICE_MANIFEST_EXPRESSION_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "device/manifest/manifest.h"

namespace belfry {

using SymbolValues = std::map<std::string, int64_t, std::less<>>;

// Evaluates integers, symbols, + - * // (floored) and parentheses.
// INVALID_ARGUMENT for anything else, an unknown symbol, an overflow or a
// division by zero.
absl::StatusOr<int64_t> EvaluateExpression(std::string_view text, const SymbolValues& symbols);

// The size of a dimension, >= 0.
absl::StatusOr<int64_t> EvaluateDim(const Dim& dim, const SymbolValues& symbols);

}  // namespace belfry

#endif  // BELFRY_DEVICE_MANIFEST_EXPRESSION_H_
