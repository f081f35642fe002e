#include "device/manifest/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "device/manifest/reader.h"

namespace belfry {
namespace {

constexpr size_t kMaxManifestBytes = 16 << 20;

}  // namespace

absl::StatusOr<Manifest> ParseManifest(std::string_view text) {
  auto parsed = ParseJsonObject(text, kMaxManifestBytes);
  if (!parsed.ok()) return parsed.status();
  Manifest manifest;
  if (auto s = ReadManifestJson(JsonView(*parsed, ""), &manifest); !s.ok()) return s;
  return manifest;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/manifest.json");
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("open ", path));
  std::string text;
  char buffer[64 << 10];
  absl::Status status;
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) status = absl::ErrnoToStatus(errno, absl::StrCat("read ", path));
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > kMaxManifestBytes) break;  // the parser says so
  }
  close(fd);
  if (!status.ok()) return status;
  auto manifest = ParseManifest(text);
  if (manifest.ok()) return manifest;
  return absl::Status(manifest.status().code(),
                      absl::StrCat(path, ": ", manifest.status().message()));
}

Signature EchoSignature() {
  Signature s;
  s.inputs.push_back({.name = "input", .dtype = DataType::kInvalid, .dims = {}});
  s.outputs.push_back({.name = "output", .dtype = DataType::kInvalid, .dims = {}});
  s.batchable = true;  // along the first axis; BYTES and scalars go alone
  s.any_tensor = true;
  return s;
}

}  // namespace belfry
