// One artifact's folder: checking that it is whole, and sealing a new one.
#ifndef BELFRY_SERVER_ARTIFACTS_FOLDER_H_
#define BELFRY_SERVER_ARTIFACTS_FOLDER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "device/manifest/manifest.h"
#include "server/artifacts/key.h"
#include "server/base/files.h"

namespace belfry::artifacts {

inline constexpr char kManifestName[] = "manifest.json";
// The sum of manifest.json, in the format of sha256sum(1). The sums of all
// other files stand in the manifest.
inline constexpr char kManifestSumName[] = "manifest.sha256";

struct CheckedFolder {
  Manifest manifest;
  ArtifactKey key;
  std::string manifest_sha256;
  bool has_sum = false;  // kManifestSumName is there
};

// Reads and checks everything: the manifest's sum, that its key is the hash of
// its fields and (unless empty) 'expected_key', each file's size and sum.
// DATA_LOSS names what is wrong with a folder that is damaged; other errors mean
// that it could not be looked at and say nothing about it.
absl::StatusOr<CheckedFolder> CheckFolder(FileSystem& files, const std::string& dir,
                                          const std::string& expected_key);

// The key alone, without reading the other files.
absl::StatusOr<ArtifactKey> ReadKey(FileSystem& files, const std::string& dir);

// DATA_LOSS when the folder holds a file that the manifest does not list.
absl::Status CheckNothingUnlisted(FileSystem& files, const std::string& dir,
                                  const Manifest& manifest);

// Writes kManifestSumName.
absl::Status WriteSum(FileSystem& files, const std::string& dir,
                      const std::string& manifest_sha256);

// Bytes of all files below; what cannot be looked at counts nothing.
uint64_t TreeBytes(FileSystem& files, const std::string& path);

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_FOLDER_H_
