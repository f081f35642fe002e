// Paths inside an artifact's folder.
#ifndef BELFRY_DEVICE_MANIFEST_PATHS_H_
#define BELFRY_DEVICE_MANIFEST_PATHS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace belfry {

// Relative, '/'-separated, at most 1024 bytes, no empty, "." or ".." part, no
// control character or backslash.
bool IsSafeRelativePath(std::string_view path);

// The real path of dir/path. FAILED_PRECONDITION if it does not exist or, by
// way of a symbolic link, lies outside 'dir'.
absl::StatusOr<std::string> ResolveInside(const std::string& dir, std::string_view path);

}  // namespace belfry

#endif  // BELFRY_DEVICE_MANIFEST_PATHS_H_
