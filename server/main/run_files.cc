#include "server/main/run_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/base/files.h"

namespace belfry {
namespace {

// Whose lock it is, as far as the file tells.
std::string Holder(int fd) {
  char text[32] = {};
  const ssize_t n = pread(fd, text, sizeof text - 1, 0);
  int pid = 0;
  if (n <= 0 || !absl::SimpleAtoi(text, &pid)) return "another process";
  return absl::StrCat("process ", pid);
}

absl::Status TakeLock(int fd, const std::string& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("the data folder is in use by ", Holder(fd), " (", path, ")"));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunFiles>> RunFiles::Open(const std::string& data_dir) {
  const std::string dir = JoinPath(data_dir, "run");
  if (auto status = FileSystem::Real().CreateDir(dir); !status.ok()) return status;
  const std::string path = JoinPath(dir, "lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  if (auto status = TakeLock(fd, path); !status.ok()) {
    close(fd);
    return status;
  }
  // The addresses of a server that crashed are nobody's.
  FileSystem::Real().RemoveTree(JoinPath(dir, "addresses.json")).IgnoreError();
  return std::unique_ptr<RunFiles>(new RunFiles(dir, fd));
}

RunFiles::~RunFiles() {
  RemoveAddresses();
  close(lock_);
}

void RunFiles::RemoveAddresses() {
  FileSystem::Real().RemoveTree(JoinPath(dir_, "addresses.json")).IgnoreError();
}

absl::Status RunFiles::WriteAddresses(const Addresses& addresses) {
  const nlohmann::ordered_json json = {{"inference", addresses.inference},
                                       {"admin", addresses.admin},
                                       {"metrics", addresses.metrics},
                                       {"pid", getpid()}};
  const std::string path = JoinPath(dir_, "addresses.json");
  FileSystem& files = FileSystem::Real();
  if (auto status = files.WriteFile(path + ".new", json.dump(2) + "\n"); !status.ok()) {
    return status;
  }
  return files.Rename(path + ".new", path);
}

}  // namespace belfry
