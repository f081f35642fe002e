// A file system that fails on purpose. Tests only.
#ifndef BELFRY_SERVER_BASE_FAULT_FILES_H_
#define BELFRY_SERVER_BASE_FAULT_FILES_H_

#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/base/files.h"

namespace belfry {

// Works on a real folder 'root' and counts the operations that change
// something (reads are not counted and never fail before the crash). It can
//  - fail operation number N once (FailAt), leaving it undone;
//  - crash at operation N (CrashAt): that one is done by half, every later one
//    fails, until Restart.
// Restart applies what a power failure may do: for each file whose bytes were
// never synced through this object, and for each name made, moved or removed
// since its folder was last synced, a seeded coin decides whether the change
// reached the disk (a kept rename of a folder does not keep what is in it).
// Files written by others (a child process) count as never synced. Nothing is
// really synced, so that tests are quick. Thread-safe.
class FaultFileSystem final : public FileSystem {
 public:
  // What the coin does at Restart.
  enum class Loss { kNothing, kEverything, kCoin };

  FaultFileSystem(std::string root, uint32_t seed = 1);

  void FailAt(int operation);   // counted from now, 0: the next one
  void CrashAt(int operation);
  int operations() const;       // since the last FailAt, CrashAt or Restart
  bool crashed() const;
  // The machine comes up again. All that stands in 'root' now and survives is
  // durable from here on.
  void Restart(Loss loss);

  absl::Status CreateDir(const std::string& path) override;
  absl::StatusOr<std::string> CreateTempDir(const std::string& prefix) override;
  absl::Status WriteFile(const std::string& path, std::string_view data) override;
  absl::Status SyncFile(const std::string& path) override;
  absl::Status SyncDir(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status RemoveTree(const std::string& path) override;
  absl::Status Touch(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path) override;
  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) override;
  absl::StatusOr<std::string> Sha256File(const std::string& path) override;

 private:
  // A change of names that is not durable yet.
  struct Change {
    enum class Kind { kMade, kMoved, kRemoved } kind;
    std::string from, to;  // kMade: to; kMoved: both; kRemoved: from, to (where it is kept)
  };
  enum class Fate { kRun, kFail, kTear };

  Fate NextFate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Alive() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool Flip(Loss loss) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Undo(const Change& change, const std::vector<const Change*>& kept_moves)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TearUnsynced(const std::string& dir, Loss loss) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkTree(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Inode(const std::string& path) const;

  const std::string root_;
  const std::string graveyard_;  // removed trees, until their parent is synced
  FileSystem& real_;
  mutable absl::Mutex mutex_;
  std::mt19937 random_ ABSL_GUARDED_BY(mutex_);
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  int fail_at_ ABSL_GUARDED_BY(mutex_) = -1;
  int crash_at_ ABSL_GUARDED_BY(mutex_) = -1;
  bool crashed_ ABSL_GUARDED_BY(mutex_) = false;
  int graves_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Change> changes_ ABSL_GUARDED_BY(mutex_);
  std::set<uint64_t> synced_ ABSL_GUARDED_BY(mutex_);  // inodes of files with durable bytes
};

}  // namespace belfry

#endif  // BELFRY_SERVER_BASE_FAULT_FILES_H_
