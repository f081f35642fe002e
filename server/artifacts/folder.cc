#include "server/artifacts/folder.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace belfry::artifacts {
namespace {

constexpr uint64_t kMaxManifestBytes = 16 << 20;

absl::Status Damaged(const std::string& what) { return absl::DataLossError(what); }

// A file that is not there, or too long, is damage; one that cannot be read just
// now (no permission, no descriptors) is not.
absl::Status DamagedIfGone(const absl::Status& status, const std::string& name) {
  if (absl::IsNotFound(status)) return Damaged(absl::StrCat(name, " is not there"));
  if (absl::IsOutOfRange(status)) return Damaged(std::string(status.message()));
  return status;
}

absl::Status CheckFile(FileSystem& files, const std::string& dir, const ManifestFile& file) {
  const std::string path = JoinPath(dir, file.path);
  const absl::StatusOr<FileInfo> info = files.Stat(path);
  if (!info.ok()) return DamagedIfGone(info.status(), file.path);
  if (info->kind != FileInfo::Kind::kFile) {
    return Damaged(absl::StrCat(file.path, " is not a plain file"));
  }
  if (info->bytes != file.bytes) {
    return Damaged(absl::StrCat(file.path, " has ", info->bytes, " bytes, the manifest says ",
                                file.bytes));
  }
  const absl::StatusOr<std::string> sum = files.Sha256File(path);
  if (!sum.ok()) return DamagedIfGone(sum.status(), file.path);
  if (*sum != file.sha256) {
    return Damaged(absl::StrCat(file.path, " has the sum ", *sum, ", the manifest says ",
                                file.sha256));
  }
  return absl::OkStatus();
}

absl::Status CheckSum(FileSystem& files, const std::string& dir, CheckedFolder& folder) {
  const absl::StatusOr<std::string> sum = files.ReadFile(JoinPath(dir, kManifestSumName), 1024);
  if (absl::IsNotFound(sum.status())) return absl::OkStatus();  // made by hand: adopted without
  if (!sum.ok()) return DamagedIfGone(sum.status(), kManifestSumName);
  folder.has_sum = true;
  if (sum->substr(0, 64) == folder.manifest_sha256) return absl::OkStatus();
  return Damaged(absl::StrCat(kManifestName, " has the sum ", folder.manifest_sha256, ", ",
                              kManifestSumName, " says otherwise"));
}

absl::Status WalkUnlisted(FileSystem& files, const std::string& dir, const std::string& below,
                          const std::set<std::string>& listed) {
  const absl::StatusOr<std::vector<std::string>> names = files.List(JoinPath(dir, below));
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const std::string path = below.empty() ? name : JoinPath(below, name);
    const absl::StatusOr<FileInfo> info = files.Stat(JoinPath(dir, path));
    if (!info.ok()) return info.status();
    if (info->kind == FileInfo::Kind::kDir) {
      if (absl::Status s = WalkUnlisted(files, dir, path, listed); !s.ok()) return s;
    } else if (!listed.contains(path)) {
      return Damaged(absl::StrCat(path, " is not listed in the manifest"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckedFolder> CheckFolder(FileSystem& files, const std::string& dir,
                                          const std::string& expected_key) {
  const absl::StatusOr<std::string> text =
      files.ReadFile(JoinPath(dir, kManifestName), kMaxManifestBytes);
  if (!text.ok()) return DamagedIfGone(text.status(), kManifestName);
  CheckedFolder folder;
  folder.manifest_sha256 = Sha256Hex(*text);
  if (absl::Status s = CheckSum(files, dir, folder); !s.ok()) return s;

  absl::StatusOr<Manifest> manifest = ParseManifest(*text);
  if (!manifest.ok()) return Damaged(std::string(manifest.status().message()));
  absl::StatusOr<ArtifactKey> key = KeyOfManifest(*text);
  if (!key.ok()) return Damaged(std::string(key.status().message()));
  if (manifest->key != key->hex) {
    return Damaged(absl::StrCat("the manifest's key is ", manifest->key, ", its fields give ",
                                key->hex));
  }
  if (!expected_key.empty() && key->hex != expected_key) {
    return Damaged(absl::StrCat("the manifest's key is ", key->hex, ", expected ", expected_key));
  }
  for (const ManifestFile& file : manifest->files) {
    if (absl::Status s = CheckFile(files, dir, file); !s.ok()) return s;
  }
  folder.manifest = *std::move(manifest);
  folder.key = *std::move(key);
  return folder;
}

absl::StatusOr<ArtifactKey> ReadKey(FileSystem& files, const std::string& dir) {
  const absl::StatusOr<std::string> text =
      files.ReadFile(JoinPath(dir, kManifestName), kMaxManifestBytes);
  if (!text.ok()) return text.status();
  return KeyOfManifest(*text);
}

absl::Status CheckNothingUnlisted(FileSystem& files, const std::string& dir,
                                  const Manifest& manifest) {
  std::set<std::string> listed = {kManifestName, kManifestSumName};
  for (const ManifestFile& file : manifest.files) listed.insert(file.path);
  return WalkUnlisted(files, dir, "", listed);
}

absl::Status WriteSum(FileSystem& files, const std::string& dir,
                      const std::string& manifest_sha256) {
  return files.WriteFile(JoinPath(dir, kManifestSumName),
                         absl::StrCat(manifest_sha256, "  ", kManifestName, "\n"));
}

uint64_t TreeBytes(FileSystem& files, const std::string& path) {
  const absl::StatusOr<FileInfo> info = files.Stat(path);
  if (!info.ok()) return 0;
  if (info->kind != FileInfo::Kind::kDir) return info->bytes;
  uint64_t total = 0;
  const absl::StatusOr<std::vector<std::string>> names = files.List(path);
  if (!names.ok()) return 0;
  for (const std::string& name : *names) total += TreeBytes(files, JoinPath(path, name));
  return total;
}

}  // namespace belfry::artifacts
