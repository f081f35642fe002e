// The artifacts on disk. Layout of the folder:
//
//   <key>/            a whole artifact; its time of change is its last use
//   tmp-…/            being made or removed; nothing in it counts
//   logs/<key>.log    what the compiler said
//   .lock             held while a process uses the folder
//
// A folder named by a key is whole at any instant: it appears by one rename
// after everything in it is synced, and leaves by one rename.
#ifndef BELFRY_SERVER_ARTIFACTS_CACHE_H_
#define BELFRY_SERVER_ARTIFACTS_CACHE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "device/manifest/manifest.h"
#include "server/artifacts/key.h"
#include "server/base/files.h"
#include "server/telemetry/metrics.h"

namespace belfry::artifacts {

struct CacheOptions {
  std::string dir;
  uint64_t quota_bytes = UINT64_MAX;
  // Nothing is removed, not even what is damaged: it could not be made again.
  // The folder may be read-only and shared.
  bool keep_all = false;
  // Removes work folders that a crash left. Off where the folder is not ours
  // alone.
  bool sweep = true;
};

// An artifact in use; evicted no sooner than the last of these is gone. May
// outlive the cache's owner.
class PinnedArtifact {
 public:
  virtual ~PinnedArtifact() = default;
  virtual const std::string& dir() const = 0;
  virtual const Manifest& manifest() const = 0;
};

// Thread-safe, but Find, Publish and Remove of one key are not called at the
// same time (the store's flights see to that).
class Cache : public std::enable_shared_from_this<Cache> {
 public:
  // UNAVAILABLE when another process holds the folder. 'files' outlives the
  // cache; 'metrics' (may be null) is used until Close.
  static absl::StatusOr<std::shared_ptr<Cache>> Open(CacheOptions options, FileSystem& files,
                                                     telemetry::Metrics* metrics);
  ~Cache();

  // NOT_FOUND; or DATA_LOSS when it was damaged (it is gone then, unless
  // keep_all). The sums are verified at the first use by this process.
  absl::StatusOr<std::shared_ptr<PinnedArtifact>> Find(const std::string& key);

  // A new folder for work; the caller removes it.
  absl::StatusOr<std::string> NewWorkFolder();
  // Takes the folder 'made' (inside a work folder) in. It is checked first; an
  // empty 'key' takes whatever key it has.
  absl::StatusOr<std::shared_ptr<PinnedArtifact>> Publish(const std::string& made,
                                                          const std::string& key);

  struct Listing {
    std::string name;  // of the folder
    ArtifactKey key;
    int64_t made_ns = 0;
  };
  // All artifacts whose manifest can be read, newest first.
  std::vector<Listing> List();

  std::string LogPath(const std::string& key) const;

  // No removal and no use of 'metrics' from here on.
  void Close();

  uint64_t bytes() const;
  struct Totals {
    uint64_t bytes = 0, artifacts = 0, evictions = 0, evicted_bytes = 0, damaged = 0;
  };
  Totals GetTotals() const;

 private:
  class Pin;
  struct Entry {
    uint64_t bytes = 0;
    int64_t last_use_ns = 0;
    int pins = 0;
    std::shared_ptr<const Manifest> manifest;  // set once verified
  };

  Cache(CacheOptions options, FileSystem& files, telemetry::Metrics* metrics)
      : options_(std::move(options)), files_(files), metrics_(metrics) {}

  absl::Status Lock();
  absl::Status Scan();
  std::string Dir(const std::string& key) const { return JoinPath(options_.dir, key); }
  absl::StatusOr<std::shared_ptr<const Manifest>> Verify(const std::string& key, uint64_t& bytes);
  std::shared_ptr<PinnedArtifact> MakePin(const std::string& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unpin(const std::string& key);
  void Use(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RemoveFolder(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnforceQuota() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t TotalBytes() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void ReportBytes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PruneLogs();

  const CacheOptions options_;
  FileSystem& files_;
  int lock_fd_ = -1;

  // Also held while a folder is renamed away, so that no pin comes in between.
  mutable absl::Mutex mutex_;
  telemetry::Metrics* metrics_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  Totals totals_ ABSL_GUARDED_BY(mutex_);  // bytes and artifacts are counted when asked
  uint64_t removals_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_CACHE_H_
