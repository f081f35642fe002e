// Files through one small interface, so that tests can fail a write, tear it,
// or stop the world between any two steps (fault_files.h).
//
// Durability is explicit: only what a Sync… call has covered is promised to be
// there after a power failure. SyncFile makes a file's bytes durable, SyncDir
// the names in a folder; neither does the other's work.
#ifndef BELFRY_SERVER_BASE_FILES_H_
#define BELFRY_SERVER_BASE_FILES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace belfry {

struct FileInfo {
  enum class Kind : uint8_t { kFile, kDir, kOther };  // kOther: a link, a device …
  Kind kind = Kind::kOther;
  uint64_t bytes = 0;    // kFile
  int64_t mtime_ns = 0;  // since the epoch
  uint64_t device = 0, inode = 0;
};

// Thread-safe. Errors carry the path and the system's words: NOT_FOUND,
// ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk full, quota) …
// Links are never followed by Stat, List and RemoveTree.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // With its parents; OK when it is there already.
  virtual absl::Status CreateDir(const std::string& path) = 0;
  // A new folder 'prefix' + six characters, readable by the owner only.
  virtual absl::StatusOr<std::string> CreateTempDir(const std::string& prefix) = 0;
  // Creates or replaces; the bytes are synced, the name is not.
  virtual absl::Status WriteFile(const std::string& path, std::string_view data) = 0;
  virtual absl::Status SyncFile(const std::string& path) = 0;
  virtual absl::Status SyncDir(const std::string& path) = 0;
  // Atomic; 'to' must not be there unless both are files.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // A file or a folder with all that is in it; OK when it is not there. Not
  // atomic: rename what others may look at out of the way first.
  virtual absl::Status RemoveTree(const std::string& path) = 0;
  // Sets the time of change to now.
  virtual absl::Status Touch(const std::string& path) = 0;

  // Names, sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  virtual absl::StatusOr<FileInfo> Stat(const std::string& path) = 0;
  // OUT_OF_RANGE when the file holds more than 'limit' bytes.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) = 0;
  // Lower-case hex.
  virtual absl::StatusOr<std::string> Sha256File(const std::string& path) = 0;

  static FileSystem& Real();
  // The same, but nothing is synced: for tests, which a disk would slow down.
  static FileSystem& RealUnsynced();
};

// Syncs every file and folder under 'path', itself last (not its name in its
// parent). INVALID_ARGUMENT when something is neither file nor folder.
absl::Status SyncTree(FileSystem& files, const std::string& path);

// Lower-case hex.
std::string Sha256Hex(std::string_view data);

// "a" + "b" -> "a/b".
std::string JoinPath(std::string_view a, std::string_view b);

}  // namespace belfry

#endif  // BELFRY_SERVER_BASE_FILES_H_
