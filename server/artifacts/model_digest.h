// SHA-256 of model files, remembered for as long as the process lives.
#ifndef BELFRY_SERVER_ARTIFACTS_MODEL_DIGEST_H_
#define BELFRY_SERVER_ARTIFACTS_MODEL_DIGEST_H_

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/base/files.h"

namespace belfry::artifacts {

// Thread-safe.
class ModelDigests {
 public:
  explicit ModelDigests(FileSystem& files) : files_(files) {}

  struct Digest {
    std::string sha256;
    FileInfo info;  // of the file that was read
  };
  // INVALID_ARGUMENT when it is not a plain file; ABORTED when it changed while
  // it was read.
  absl::StatusOr<Digest> Of(const std::string& path);

  // ABORTED when the file is not the one any more that the digest was made of.
  absl::Status CheckUnchanged(const std::string& path, const Digest& digest);

 private:
  absl::StatusOr<FileInfo> StatFile(const std::string& path);

  FileSystem& files_;
  absl::Mutex mutex_;
  std::map<std::string, Digest> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_MODEL_DIGEST_H_
