#include "server/base/fault_files.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace belfry {
namespace {

std::string Parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

absl::Status Injected(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("injected fault: ", what));
}

}  // namespace

FaultFileSystem::FaultFileSystem(std::string root, uint32_t seed)
    : root_(std::move(root)),
      graveyard_(root_ + ".graveyard"),
      real_(FileSystem::RealUnsynced()),
      random_(seed) {
  real_.CreateDir(root_).IgnoreError();
  real_.CreateDir(graveyard_).IgnoreError();
  absl::MutexLock lock(&mutex_);
  MarkTree(root_);
}

void FaultFileSystem::FailAt(int operation) {
  absl::MutexLock lock(&mutex_);
  count_ = 0;
  fail_at_ = operation;
}

void FaultFileSystem::CrashAt(int operation) {
  absl::MutexLock lock(&mutex_);
  count_ = 0;
  crash_at_ = operation;
}

int FaultFileSystem::operations() const {
  absl::MutexLock lock(&mutex_);
  return count_;
}

bool FaultFileSystem::crashed() const {
  absl::MutexLock lock(&mutex_);
  return crashed_;
}

void FaultFileSystem::Restart(Loss loss) {
  absl::MutexLock lock(&mutex_);
  // Newest first, as each may rest on the one before it. Every change has a fate
  // of its own: a kept move of a folder does not save the names in it.
  std::vector<const Change*> kept_moves;
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    if (Flip(loss)) {
      Undo(*change, kept_moves);
    } else if (change->kind == Change::Kind::kMoved) {
      kept_moves.push_back(&*change);
    }
  }
  changes_.clear();
  TearUnsynced(root_, loss);
  real_.RemoveTree(graveyard_).IgnoreError();
  real_.CreateDir(graveyard_).IgnoreError();
  synced_.clear();
  MarkTree(root_);
  crashed_ = false;
  crash_at_ = fail_at_ = -1;
  count_ = 0;
}

FaultFileSystem::Fate FaultFileSystem::NextFate() {
  const int now = count_++;
  if (now == fail_at_) return Fate::kFail;
  if (now == crash_at_) {
    crashed_ = true;
    return Fate::kTear;
  }
  return Fate::kRun;
}

absl::Status FaultFileSystem::Alive() const {
  return crashed_ ? Injected("the machine is down") : absl::OkStatus();
}

bool FaultFileSystem::Flip(Loss loss) {
  if (loss == Loss::kCoin) return (random_() & 1) != 0;
  return loss == Loss::kEverything;
}

void FaultFileSystem::Undo(const Change& change, const std::vector<const Change*>& kept_moves) {
  // Where the name stands now, after the later moves that were kept.
  std::string now = change.to;
  for (auto move = kept_moves.rbegin(); move != kept_moves.rend(); ++move) {
    const std::string& from = (*move)->from;
    if (now == from) {
      now = (*move)->to;
    } else if (now.compare(0, from.size() + 1, from + "/") == 0) {
      now = (*move)->to + now.substr(from.size());
    }
  }
  switch (change.kind) {
    case Change::Kind::kMade: real_.RemoveTree(now).IgnoreError(); break;
    case Change::Kind::kMoved:
    case Change::Kind::kRemoved: real_.Rename(now, change.from).IgnoreError(); break;
  }
}

void FaultFileSystem::TearUnsynced(const std::string& dir, Loss loss) {
  const auto names = real_.List(dir);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string path = JoinPath(dir, name);
    const auto info = real_.Stat(path);
    if (!info.ok()) continue;
    if (info->kind == FileInfo::Kind::kDir) {
      TearUnsynced(path, loss);
    } else if (!synced_.contains(info->inode) && Flip(loss) && info->bytes > 0) {
      if (truncate(path.c_str(), static_cast<off_t>(random_() % info->bytes)) != 0) continue;
    }
  }
}

void FaultFileSystem::MarkTree(const std::string& path) {
  const auto names = real_.List(path);
  if (!names.ok()) {
    synced_.insert(Inode(path));
    return;
  }
  for (const std::string& name : *names) MarkTree(JoinPath(path, name));
}

uint64_t FaultFileSystem::Inode(const std::string& path) const {
  const auto info = real_.Stat(path);
  return info.ok() ? info->inode : 0;
}

absl::Status FaultFileSystem::CreateDir(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status s = Alive(); !s.ok()) return s;
  if (real_.Stat(path).ok()) return real_.CreateDir(path);  // changes nothing
  if (NextFate() != Fate::kRun) return Injected("create folder");
  absl::Status s = real_.CreateDir(path);
  if (s.ok()) changes_.push_back({Change::Kind::kMade, "", path});
  return s;
}

absl::StatusOr<std::string> FaultFileSystem::CreateTempDir(const std::string& prefix) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status s = Alive(); !s.ok()) return s;
  const Fate fate = NextFate();
  if (fate == Fate::kFail) return Injected("create folder");
  absl::StatusOr<std::string> made = real_.CreateTempDir(prefix);
  if (made.ok()) changes_.push_back({Change::Kind::kMade, "", *made});
  if (fate == Fate::kTear) return Injected("crash after create folder");
  return made;
}

absl::Status FaultFileSystem::WriteFile(const std::string& path, std::string_view data) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status s = Alive(); !s.ok()) return s;
  const Fate fate = NextFate();
  if (fate == Fate::kFail) return Injected("write");
  const bool fresh = !real_.Stat(path).ok();
  absl::Status s =
      real_.WriteFile(path, fate == Fate::kTear ? data.substr(0, data.size() / 2) : data);
  if (s.ok() && fresh) changes_.push_back({Change::Kind::kMade, "", path});
  if (fate == Fate::kTear) {
    synced_.erase(Inode(path));
    return Injected("crash in write");
  }
  if (s.ok()) synced_.insert(Inode(path));
  return s;
}

absl::Status FaultFileSystem::SyncFile(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status s = Alive(); !s.ok()) return s;
  if (NextFate() != Fate::kRun) return Injected("sync file");
  absl::Status s = real_.SyncFile(path);
  if (s.ok()) synced_.insert(Inode(path));
  return s;
}

absl::Status FaultFileSystem::SyncDir(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status s = Alive(); !s.ok()) return s;
  if (NextFate() != Fate::kRun) return Injected("sync folder");
  absl::Status s = real_.SyncDir(path);
  if (!s.ok()) return s;
  std::erase_if(changes_, [&](const Change& change) {
    switch (change.kind) {
      case Change::Kind::kMade: return Parent(change.to) == path;
      // Across folders the move is durable once its target is.
      case Change::Kind::kMoved: return Parent(change.to) == path;
      case Change::Kind::kRemoved: return Parent(change.from) == path;
    }
    return false;
  });
  return s;
}

absl::Status FaultFileSystem::Rename(const std::string& from, const std::string& to) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status s = Alive(); !s.ok()) return s;
  const Fate fate = NextFate();
  if (fate == Fate::kFail) return Injected("rename");
  absl::Status s = real_.Rename(from, to);
  if (s.ok()) changes_.push_back({Change::Kind::kMoved, from, to});
  return fate == Fate::kTear ? Injected("crash after rename") : s;
}

absl::Status FaultFileSystem::RemoveTree(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status s = Alive(); !s.ok()) return s;
  if (!real_.Stat(path).ok()) return absl::OkStatus();
  const Fate fate = NextFate();
  if (fate == Fate::kFail) return Injected("remove");
  if (fate == Fate::kTear) {
    // Half of the names are gone, for good.
    const auto names = real_.List(path);
    for (size_t i = 0; names.ok() && i < (names->size() + 1) / 2; ++i) {
      real_.RemoveTree(JoinPath(path, (*names)[i])).IgnoreError();
    }
    return Injected("crash in remove");
  }
  const std::string grave = JoinPath(graveyard_, absl::StrCat(graves_++));
  absl::Status s = real_.Rename(path, grave);
  if (s.ok()) changes_.push_back({Change::Kind::kRemoved, path, grave});
  return s;
}

absl::Status FaultFileSystem::Touch(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status s = Alive(); !s.ok()) return s;
  if (NextFate() != Fate::kRun) return Injected("touch");
  return real_.Touch(path);
}

absl::StatusOr<std::vector<std::string>> FaultFileSystem::List(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status s = Alive(); !s.ok()) return s;
  return real_.List(path);
}

absl::StatusOr<FileInfo> FaultFileSystem::Stat(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status s = Alive(); !s.ok()) return s;
  return real_.Stat(path);
}

absl::StatusOr<std::string> FaultFileSystem::ReadFile(const std::string& path, uint64_t limit) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status s = Alive(); !s.ok()) return s;
  return real_.ReadFile(path, limit);
}

absl::StatusOr<std::string> FaultFileSystem::Sha256File(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status s = Alive(); !s.ok()) return s;
  return real_.Sha256File(path);
}

}  // namespace belfry
