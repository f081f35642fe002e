// What a model's name and a version's number look like, wherever they come from:
// a request, a folder, an operator.
#ifndef BELFRY_SERVER_SERVING_NAMES_H_
#define BELFRY_SERVER_SERVING_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace belfry::serving {

// The model that is always there.
inline constexpr char kEcho[] = "echo";

// [A-Za-z0-9][A-Za-z0-9._-]{0,127}
bool IsModelName(std::string_view name);
// INVALID_ARGUMENT that quotes the name, escaped and cut.
absl::Status CheckModelName(std::string_view name);

// A decimal number from 1 to INT64_MAX in its only spelling: no sign, no
// leading zero, no space.
std::optional<int64_t> ParseVersionNumber(std::string_view text);

// "card-fraud/3"
std::string VersionLabel(std::string_view model, int64_t number);

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_NAMES_H_
