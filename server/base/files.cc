#include "server/base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "device/channel/text.h"

namespace belfry {
namespace {

absl::Status Error(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " '", path, "'"));
}

// Closes at the end of the scope.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // close(2) may be the first to tell of a failed write.
  bool Close() {
    const int fd = fd_;
    fd_ = -1;
    return close(fd) == 0;
  }

 private:
  int fd_;
};

bool WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    data.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    ok_ = context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1;
  }
  void Update(const void* data, size_t size) {
    ok_ = ok_ && EVP_DigestUpdate(context_.get(), data, size) == 1;
  }
  // Empty when the library failed (no memory, or a policy that forbids it).
  std::string Hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    if (!ok_ || EVP_DigestFinal_ex(context_.get(), digest, &size) != 1) return "";
    return absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(digest), size));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
  bool ok_ = false;
};

// Removes relative to an open folder, so that a link put in the place of a
// folder meanwhile is removed and not walked into.
bool RemoveAt(int parent, const char* name) {
  if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) return true;
  if (errno != EISDIR && errno != EPERM) return false;
  const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  DIR* dir = fdopendir(fd);
  if (dir == nullptr) {
    close(fd);
    return false;
  }
  bool ok = true;
  while (const dirent* entry = readdir(dir)) {
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    ok = RemoveAt(fd, entry->d_name) && ok;
  }
  closedir(dir);
  return unlinkat(parent, name, AT_REMOVEDIR) == 0 && ok;
}

class RealFileSystem final : public FileSystem {
 public:
  explicit RealFileSystem(bool sync) : sync_(sync) {}

  absl::Status CreateDir(const std::string& path) override {
    for (size_t slash = path.find('/', 1); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      const std::string parent = path.substr(0, slash);
      if (mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) {
        return Error("create folder", parent);
      }
    }
    if (mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
    if (errno != EEXIST) return Error("create folder", path);
    struct stat st;  // a link to a folder will do
    if (stat(path.c_str(), &st) != 0) return Error("look at", path);
    errno = ENOTDIR;
    return S_ISDIR(st.st_mode) ? absl::OkStatus() : Error("create folder", path);
  }

  absl::StatusOr<std::string> CreateTempDir(const std::string& prefix) override {
    std::string path = prefix + "XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return Error("create folder", path);
    return path;
  }

  absl::Status WriteFile(const std::string& path, std::string_view data) override {
    Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd) return Error("create", path);
    if (!WriteAll(fd.get(), data)) return Error("write", path);
    if (sync_ && fsync(fd.get()) != 0) return Error("sync", path);
    if (!fd.Close()) return Error("close", path);
    return absl::OkStatus();
  }

  absl::Status SyncFile(const std::string& path) override {
    return Sync(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  }

  absl::Status SyncDir(const std::string& path) override {
    return Sync(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return Error("rename", absl::StrCat(from, "' to '", to));
  }

  absl::Status RemoveTree(const std::string& path) override {
    return RemoveAt(AT_FDCWD, path.c_str()) ? absl::OkStatus() : Error("remove", path);
  }

  absl::Status Touch(const std::string& path) override {
    // The kernel's own "now" moves in steps of some milliseconds.
    timespec now[2];
    clock_gettime(CLOCK_REALTIME, &now[0]);
    now[1] = now[0];
    if (utimensat(AT_FDCWD, path.c_str(), now, 0) == 0) return absl::OkStatus();
    return Error("touch", path);
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    DIR* dir = opendir(path.c_str());
    if (dir == nullptr) return Error("list", path);
    auto closer = absl::MakeCleanup([dir] { closedir(dir); });
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = readdir(dir);
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return Error("list", path);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    struct stat st;
    if (lstat(path.c_str(), &st) != 0) return Error("look at", path);
    FileInfo info;
    info.kind = S_ISREG(st.st_mode)   ? FileInfo::Kind::kFile
                : S_ISDIR(st.st_mode) ? FileInfo::Kind::kDir
                                      : FileInfo::Kind::kOther;
    info.bytes = S_ISREG(st.st_mode) ? static_cast<uint64_t>(st.st_size) : 0;
    info.mtime_ns = static_cast<int64_t>(st.st_mtim.tv_sec) * 1'000'000'000 + st.st_mtim.tv_nsec;
    info.device = st.st_dev;
    info.inode = st.st_ino;
    return info;
  }

  absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) override {
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return Error("open", path);
    std::string data;
    char buffer[65536];
    for (;;) {
      const ssize_t n = read(fd.get(), buffer, sizeof(buffer));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Error("read", path);
      if (n == 0) return data;
      if (data.size() + static_cast<uint64_t>(n) > limit) {
        return absl::OutOfRangeError(
            absl::StrCat("'", path, "' holds more than the ", limit, " bytes expected at most"));
      }
      data.append(buffer, static_cast<size_t>(n));
    }
  }

  absl::StatusOr<std::string> Sha256File(const std::string& path) override {
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return Error("open", path);
    Sha256 sum;
    constexpr size_t kChunk = 1 << 20;
    const auto buffer = std::make_unique<char[]>(kChunk);
    for (;;) {
      const ssize_t n = read(fd.get(), buffer.get(), kChunk);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Error("read", path);
      if (n == 0) break;
      sum.Update(buffer.get(), static_cast<size_t>(n));
    }
    std::string hex = sum.Hex();
    if (hex.empty()) return absl::InternalError("OpenSSL refuses SHA-256");
    return hex;
  }

 private:
  absl::Status Sync(const std::string& path, int flags) const {
    Fd fd(open(path.c_str(), flags));
    if (!fd) return Error("open", path);
    if (sync_ && fsync(fd.get()) != 0) return Error("sync", path);
    return absl::OkStatus();
  }

  const bool sync_;
};

}  // namespace

FileSystem& FileSystem::Real() {
  static RealFileSystem* const real = new RealFileSystem(true);
  return *real;
}

FileSystem& FileSystem::RealUnsynced() {
  static RealFileSystem* const real = new RealFileSystem(false);
  return *real;
}

absl::Status SyncTree(FileSystem& files, const std::string& path) {
  const absl::StatusOr<FileInfo> info = files.Stat(path);
  if (!info.ok()) return info.status();
  if (info->kind == FileInfo::Kind::kFile) return files.SyncFile(path);
  if (info->kind != FileInfo::Kind::kDir) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is neither a plain file nor a folder"));
  }
  const absl::StatusOr<std::vector<std::string>> names = files.List(path);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (absl::Status s = SyncTree(files, JoinPath(path, name)); !s.ok()) return s;
  }
  return files.SyncDir(path);
}

std::string Sha256Hex(std::string_view data) {
  Sha256 sum;
  sum.Update(data.data(), data.size());
  return sum.Hex();
}

std::string JoinPath(std::string_view a, std::string_view b) {
  const bool slash = !a.empty() && a.back() == '/';
  return absl::StrCat(AbslView(a), slash ? "" : "/", AbslView(b));
}

}  // namespace belfry
