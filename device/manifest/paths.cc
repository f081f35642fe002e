#include "device/manifest/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "device/channel/text.h"

namespace belfry {
namespace {

constexpr size_t kMaxPath = 1024;

absl::StatusOr<std::string> RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  if (real == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", strerror(errno)));
  }
  return std::string(real.get());
}

}  // namespace

bool IsSafeRelativePath(std::string_view path) {
  if (path.empty() || path.size() > kMaxPath) return false;
  for (const char c : path) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f || c == '\\') return false;
  }
  for (;;) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

absl::StatusOr<std::string> ResolveInside(const std::string& dir, std::string_view path) {
  if (!IsSafeRelativePath(path)) {
    return absl::FailedPreconditionError(
        absl::StrCat("path '", AbslView(path), "' leaves the artifact's folder"));
  }
  auto root = RealPath(dir);
  if (!root.ok()) return root.status();
  auto real = RealPath(absl::StrCat(dir, "/", AbslView(path)));
  if (!real.ok()) return real.status();
  if (!absl::StartsWith(*real, absl::StrCat(*root, *root == "/" ? "" : "/"))) {
    return absl::FailedPreconditionError(
        absl::StrCat(dir, "/", AbslView(path), " is a link to ", *real, ", outside the artifact"));
  }
  return real;
}

}  // namespace belfry
