// One text for one JSON value, equal to the byte to what Python's
//   json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
// gives, so that both languages compute the same hash of it.
#ifndef BELFRY_SERVER_BASE_CANONICAL_JSON_H_
#define BELFRY_SERVER_BASE_CANONICAL_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace belfry {

// INVALID_ARGUMENT for what has no canonical text: not valid UTF-8, inf or nan,
// nested deeper than 64.
absl::StatusOr<std::string> CanonicalJson(const nlohmann::json& value);

// Python's repr() of a float: the shortest digits that read back the same.
std::string FloatRepr(double value);

}  // namespace belfry

#endif  // BELFRY_SERVER_BASE_CANONICAL_JSON_H_
