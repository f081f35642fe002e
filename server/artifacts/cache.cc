#include "server/artifacts/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/artifacts/eviction.h"
#include "server/artifacts/folder.h"
#include "server/telemetry/log.h"

namespace belfry::artifacts {
namespace {

constexpr char kWorkPrefix[] = "tmp-";
constexpr char kLogs[] = "logs";
constexpr size_t kMaxLogs = 200;

}  // namespace

class Cache::Pin final : public PinnedArtifact {
 public:
  Pin(std::shared_ptr<Cache> cache, std::string key, std::shared_ptr<const Manifest> manifest)
      : cache_(std::move(cache)),
        key_(std::move(key)),
        dir_(cache_->Dir(key_)),
        manifest_(std::move(manifest)) {}
  ~Pin() override { cache_->Unpin(key_); }
  const std::string& dir() const override { return dir_; }
  const Manifest& manifest() const override { return *manifest_; }

 private:
  const std::shared_ptr<Cache> cache_;
  const std::string key_, dir_;
  const std::shared_ptr<const Manifest> manifest_;
};

absl::StatusOr<std::shared_ptr<Cache>> Cache::Open(CacheOptions options, FileSystem& files,
                                                   telemetry::Metrics* metrics) {
  while (options.dir.size() > 1 && options.dir.back() == '/') options.dir.pop_back();
  std::shared_ptr<Cache> cache(new Cache(std::move(options), files, metrics));
  if (absl::Status s = cache->Lock(); !s.ok()) return s;
  if (absl::Status s = cache->Scan(); !s.ok()) return s;
  return cache;
}

Cache::~Cache() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

absl::Status Cache::Lock() {
  // A folder that is only read may lie where nothing can be made; it must be there.
  absl::Status made = files_.CreateDir(options_.dir);
  if (!made.ok() && !options_.keep_all) return made;
  const std::string path = JoinPath(options_.dir, ".lock");
  const int mode = options_.keep_all ? O_RDONLY : O_RDWR | O_CREAT;
  lock_fd_ = open(path.c_str(), mode | O_CLOEXEC, 0644);
  if (lock_fd_ < 0) {
    // A folder that is only read needs no lock file (it may not be writable).
    if (options_.keep_all) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open '", path, "'"));
  }
  const int kind = options_.keep_all ? LOCK_SH : LOCK_EX;
  if (flock(lock_fd_, kind | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock '", path, "'"));
  }
  return absl::UnavailableError(absl::StrCat(
      "another process uses the artifact folder '", options_.dir, "' (it holds '", path,
      "'); give this one a data folder of its own, or stop the other"));
}

absl::Status Cache::Scan() {
  const absl::StatusOr<std::vector<std::string>> names = files_.List(options_.dir);
  if (!names.ok()) return names.status();
  absl::MutexLock lock(&mutex_);
  for (const std::string& name : *names) {
    const std::string path = JoinPath(options_.dir, name);
    if (absl::StartsWith(name, kWorkPrefix)) {
      if (options_.keep_all || !options_.sweep) continue;
      if (absl::Status s = files_.RemoveTree(path); !s.ok()) {
        telemetry::LogWarning("cannot remove what a crash left behind",
                              {{"path", path}, {"error", s.ToString()}});
      }
    } else if (IsKey(name)) {
      const absl::StatusOr<FileInfo> info = files_.Stat(path);
      if (!info.ok() || info->kind != FileInfo::Kind::kDir) continue;
      Entry& entry = entries_[name];
      entry.bytes = TreeBytes(files_, path);
      entry.last_use_ns = info->mtime_ns;
    }
  }
  EnforceQuota();
  ReportBytes();
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Manifest>> Cache::Verify(const std::string& key,
                                                              uint64_t& bytes) {
  absl::StatusOr<CheckedFolder> folder = CheckFolder(files_, Dir(key), key);
  if (!folder.ok()) return folder.status();
  if (!folder->has_sum) {
    // An artifact that came without: from here on its manifest is covered too.
    // On a read-only folder that fails, and is not needed to serve.
    absl::Status s = WriteSum(files_, Dir(key), folder->manifest_sha256);
    if (s.ok()) s = files_.SyncDir(Dir(key));
    if (!s.ok() && !options_.keep_all) {
      telemetry::LogWarning("cannot write the manifest's sum",
                            {{"key", key}, {"error", s.ToString()}});
    }
  }
  bytes = TreeBytes(files_, Dir(key));
  return std::make_shared<const Manifest>(std::move(folder->manifest));
}

absl::StatusOr<std::shared_ptr<PinnedArtifact>> Cache::Find(const std::string& key) {
  {
    absl::MutexLock lock(&mutex_);
    // The folder is looked at each time: it may have been copied in since the
    // start, or removed by hand.
    if (const absl::StatusOr<FileInfo> info = files_.Stat(Dir(key)); !info.ok()) {
      auto gone = entries_.find(key);
      if (absl::IsNotFound(info.status()) && gone != entries_.end()) {
        gone->second.manifest = nullptr;
        if (gone->second.pins == 0) entries_.erase(gone);
      }
      return info.status();
    }
    const Entry& entry = entries_[key];
    if (entry.manifest != nullptr) {
      Use(key);
      return MakePin(key);
    }
    ++entries_[key].pins;  // nobody evicts it while it is read
  }
  uint64_t bytes = 0;
  auto manifest = Verify(key, bytes);

  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[key];
  --entry.pins;
  if (manifest.ok()) {
    entry.manifest = *std::move(manifest);
    entry.bytes = bytes;
    Use(key);
    std::shared_ptr<PinnedArtifact> pin = MakePin(key);
    EnforceQuota();
    ReportBytes();
    return pin;
  }
  if (!absl::IsDataLoss(manifest.status())) return manifest.status();
  ++totals_.damaged;
  telemetry::LogError("damaged artifact", {{"key", key},
                                           {"fault", std::string(manifest.status().message())},
                                           {"removed", !options_.keep_all}});
  const absl::Status damage = absl::DataLossError(absl::StrCat(
      "the artifact ", key, " is damaged: ", manifest.status().message()));
  if (!options_.keep_all) {
    if (absl::Status s = RemoveFolder(key); !s.ok()) return s;
  }
  return damage;
}

absl::StatusOr<std::string> Cache::NewWorkFolder() {
  return files_.CreateTempDir(JoinPath(options_.dir, kWorkPrefix));
}

absl::StatusOr<std::shared_ptr<PinnedArtifact>> Cache::Publish(const std::string& made,
                                                               const std::string& key) {
  absl::StatusOr<CheckedFolder> folder = CheckFolder(files_, made, key);
  if (!folder.ok()) return folder.status();
  if (absl::Status s = CheckNothingUnlisted(files_, made, folder->manifest); !s.ok()) return s;
  if (absl::Status s = WriteSum(files_, made, folder->manifest_sha256); !s.ok()) return s;
  if (absl::Status s = SyncTree(files_, made); !s.ok()) return s;
  const uint64_t bytes = TreeBytes(files_, made);

  const std::string& name = folder->key.hex;
  absl::MutexLock lock(&mutex_);
  if (files_.Stat(Dir(name)).ok()) {
    auto there = entries_.find(name);
    if (there != entries_.end() && there->second.manifest != nullptr) return MakePin(name);
    // Put there meanwhile by somebody else and never verified: ours is.
    if (absl::Status s = RemoveFolder(name); !s.ok()) return s;
  }
  if (absl::Status s = files_.Rename(made, Dir(name)); !s.ok()) return s;
  if (absl::Status s = files_.SyncDir(options_.dir); !s.ok()) return s;
  Entry& entry = entries_[name];
  entry.bytes = bytes;
  entry.manifest = std::make_shared<const Manifest>(std::move(folder->manifest));
  if (entry.bytes > options_.quota_bytes) {
    telemetry::LogWarning("artifact is larger than the cache's quota",
                          {{"key", name},
                           {"bytes", entry.bytes},
                           {"quota", options_.quota_bytes},
                           {"consequence", "served, removed when no longer in use"}});
  }
  Use(name);
  std::shared_ptr<PinnedArtifact> pin = MakePin(name);
  EnforceQuota();
  ReportBytes();
  PruneLogs();
  return pin;
}

std::vector<Cache::Listing> Cache::List() {
  std::vector<Listing> all;
  const absl::StatusOr<std::vector<std::string>> names = files_.List(options_.dir);
  if (!names.ok()) return all;
  for (const std::string& name : *names) {
    if (!IsKey(name)) continue;
    absl::StatusOr<ArtifactKey> key = ReadKey(files_, Dir(name));
    const absl::StatusOr<FileInfo> info = files_.Stat(JoinPath(Dir(name), kManifestName));
    if (key.ok() && info.ok()) all.push_back({name, *std::move(key), info->mtime_ns});
  }
  std::stable_sort(all.begin(), all.end(), [](const Listing& a, const Listing& b) {
    return a.made_ns > b.made_ns;
  });
  return all;
}

std::string Cache::LogPath(const std::string& key) const {
  return JoinPath(JoinPath(options_.dir, kLogs), absl::StrCat(key, ".log"));
}

void Cache::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  metrics_ = nullptr;
}

uint64_t Cache::bytes() const {
  absl::MutexLock lock(&mutex_);
  return TotalBytes();
}

Cache::Totals Cache::GetTotals() const {
  absl::MutexLock lock(&mutex_);
  Totals totals = totals_;
  totals.bytes = TotalBytes();
  totals.artifacts = entries_.size();
  return totals;
}

std::shared_ptr<PinnedArtifact> Cache::MakePin(const std::string& key) {
  Entry& entry = entries_[key];
  ++entry.pins;
  return std::make_shared<Pin>(shared_from_this(), key, entry.manifest);
}

void Cache::Unpin(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  auto it = entries_.find(key);
  if (it == entries_.end()) return;
  if (--it->second.pins > 0) return;
  Use(key);  // it was in use until now
  EnforceQuota();
  ReportBytes();
}

void Cache::Use(const std::string& key) {
  entries_[key].last_use_ns = absl::ToUnixNanos(absl::Now());
  // Not synced: a crash may cost the order of two artifacts, nothing more.
  if (!options_.keep_all && !closed_) files_.Touch(Dir(key)).IgnoreError();
}

absl::Status Cache::RemoveFolder(const std::string& key) {
  // Out of sight by one rename; a crash in the removal leaves a work folder.
  const std::string away =
      JoinPath(options_.dir, absl::StrCat(kWorkPrefix, "removed-", key, "-", ++removals_));
  if (absl::Status s = files_.Rename(Dir(key), away); !s.ok() && !absl::IsNotFound(s)) return s;
  entries_.erase(key);
  files_.SyncDir(options_.dir).IgnoreError();
  if (absl::Status s = files_.RemoveTree(away); !s.ok()) {
    telemetry::LogWarning("cannot remove an artifact", {{"path", away}, {"error", s.ToString()}});
  }
  return absl::OkStatus();
}

void Cache::EnforceQuota() {
  if (options_.keep_all || closed_) return;
  std::vector<EvictionCandidate> candidates;
  for (const auto& [key, e] : entries_) {
    candidates.push_back({key, e.bytes, e.last_use_ns, e.pins > 0});
  }
  for (const std::string& key : ChooseEvictions(std::move(candidates), options_.quota_bytes)) {
    const uint64_t bytes = entries_[key].bytes;
    if (absl::Status s = RemoveFolder(key); !s.ok()) {
      telemetry::LogWarning("cannot evict an artifact", {{"key", key}, {"error", s.ToString()}});
      continue;
    }
    ++totals_.evictions;
    totals_.evicted_bytes += bytes;
    if (metrics_ != nullptr) metrics_->CacheEvicted(bytes);
    telemetry::LogInfo("artifact evicted", {{"key", key}, {"bytes", bytes}});
  }
}

uint64_t Cache::TotalBytes() const {
  uint64_t total = 0;
  for (const auto& [key, entry] : entries_) total += entry.bytes;
  return total;
}

void Cache::ReportBytes() {
  if (metrics_ != nullptr) metrics_->SetCacheBytes(TotalBytes());
}

void Cache::PruneLogs() {
  const std::string dir = JoinPath(options_.dir, kLogs);
  const absl::StatusOr<std::vector<std::string>> names = files_.List(dir);
  if (!names.ok() || names->size() <= kMaxLogs) return;
  std::vector<std::pair<int64_t, std::string>> by_age;
  for (const std::string& name : *names) {
    const absl::StatusOr<FileInfo> info = files_.Stat(JoinPath(dir, name));
    if (info.ok()) by_age.emplace_back(info->mtime_ns, name);
  }
  std::sort(by_age.begin(), by_age.end());
  for (size_t i = 0; i + kMaxLogs < by_age.size(); ++i) {
    files_.RemoveTree(JoinPath(dir, by_age[i].second)).IgnoreError();
  }
}

}  // namespace belfry::artifacts
