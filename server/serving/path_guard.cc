#include "server/serving/path_guard.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

std::string Quoted(const std::string& path) {
  return absl::StrCat("'", telemetry::Sanitize(path, 512), "'");
}

}  // namespace

absl::StatusOr<std::string> RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  if (real != nullptr) return std::string(real.get());
  const int error = errno;
  if (error == ENOENT || error == ENOTDIR) {
    return absl::NotFoundError(absl::StrCat(Quoted(path), " does not exist"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(Quoted(path), " cannot be resolved: ", strerror(error)));
}

bool IsBelow(std::string_view path, std::string_view root) {
  if (root == "/") return path.starts_with('/');
  if (!path.starts_with(root)) return false;
  return path.size() == root.size() || path[root.size()] == '/';
}

absl::StatusOr<std::string> RealPathBelow(const std::string& path, std::string_view real_root) {
  auto real = RealPath(path);
  if (real.ok() && !IsBelow(*real, real_root)) {
    return absl::PermissionDeniedError(
        absl::StrCat(Quoted(path), " is a link that leads out of ",
                     Quoted(std::string(real_root))));
  }
  return real;
}

bool IsRegularFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool IsDirectory(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace belfry::serving
