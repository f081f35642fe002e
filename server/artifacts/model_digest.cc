#include "server/artifacts/model_digest.h"

#include <stdlib.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace belfry::artifacts {
namespace {

constexpr size_t kMaxKnown = 10'000;
// A file written twice within the clock's grain has one time and two contents;
// what changed this recently is not remembered.
constexpr int64_t kRacyNs = 2'000'000'000;

bool Same(const FileInfo& a, const FileInfo& b) {
  return a.kind == b.kind && a.bytes == b.bytes && a.mtime_ns == b.mtime_ns &&
         a.inode == b.inode && a.device == b.device;
}

// A model may be given by a link; its file is what counts.
std::string Resolved(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string text = real;
  free(real);
  return text;
}

absl::Status Changed(const std::string& path) {
  return absl::AbortedError(absl::StrCat("the model '", path,
                                         "' changed while it was being compiled, expected a file "
                                         "that stays as it is"));
}

}  // namespace

absl::StatusOr<FileInfo> ModelDigests::StatFile(const std::string& path) {
  absl::StatusOr<FileInfo> info = files_.Stat(Resolved(path));
  if (!info.ok()) return info.status();
  if (info->kind != FileInfo::Kind::kFile) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model '", path, "' is not a plain file, expected a .pt2"));
  }
  return info;
}

absl::StatusOr<ModelDigests::Digest> ModelDigests::Of(const std::string& path) {
  const absl::StatusOr<FileInfo> info = StatFile(path);
  if (!info.ok()) return info.status();
  {
    absl::MutexLock lock(&mutex_);
    const auto it = known_.find(path);
    if (it != known_.end() && Same(it->second.info, *info)) return it->second;
  }
  absl::StatusOr<std::string> sum = files_.Sha256File(path);
  if (!sum.ok()) return sum.status();
  Digest digest = {*std::move(sum), *info};
  if (absl::Status s = CheckUnchanged(path, digest); !s.ok()) return s;
  if (absl::ToUnixNanos(absl::Now()) - info->mtime_ns > kRacyNs) {
    absl::MutexLock lock(&mutex_);
    if (known_.size() >= kMaxKnown) known_.clear();
    known_[path] = digest;
  }
  return digest;
}

absl::Status ModelDigests::CheckUnchanged(const std::string& path, const Digest& digest) {
  const absl::StatusOr<FileInfo> now = StatFile(path);
  if (!now.ok()) return now.status();
  return Same(*now, digest.info) ? absl::OkStatus() : Changed(path);
}

}  // namespace belfry::artifacts
