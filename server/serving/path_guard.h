// Whether a path stays below a root once every link in it is followed.
#ifndef BELFRY_SERVER_SERVING_PATH_GUARD_H_
#define BELFRY_SERVER_SERVING_PATH_GUARD_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace belfry::serving {

// realpath(3). NOT_FOUND, or FAILED_PRECONDITION with the reason of the system.
absl::StatusOr<std::string> RealPath(const std::string& path);

// 'path' is the root itself or lies below it. Both without "." and "..".
bool IsBelow(std::string_view path, std::string_view root);

// The real path of 'path', which must lie below 'real_root' (itself resolved);
// PERMISSION_DENIED if a link leads out of it.
absl::StatusOr<std::string> RealPathBelow(const std::string& path, std::string_view real_root);

bool IsRegularFile(const std::string& path);  // follows links
bool IsDirectory(const std::string& path);    // follows links

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_PATH_GUARD_H_
