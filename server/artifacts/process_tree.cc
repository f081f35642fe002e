#include "server/artifacts/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace belfry::artifacts {
namespace {

constexpr size_t kMaxProcesses = 4096;

std::string ReadSmall(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[4096];
  ssize_t n;
  while (text.size() < (1 << 20) && (n = read(fd, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return text;
}

// A child belongs to the thread that started it.
void AddChildren(pid_t pid, std::vector<pid_t>& out) {
  const std::string tasks = absl::StrCat("/proc/", pid, "/task");
  DIR* dir = opendir(tasks.c_str());
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] == '.') continue;
    const std::string text = ReadSmall(absl::StrCat(tasks, "/", entry->d_name, "/children"));
    for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
      pid_t child;
      if (absl::SimpleAtoi(word, &child) && out.size() < kMaxProcesses) out.push_back(child);
    }
  }
  closedir(dir);
}

uint64_t AnonymousBytes(pid_t pid) {
  const std::string text = ReadSmall(absl::StrCat("/proc/", pid, "/statm"));
  const std::vector<absl::string_view> fields = absl::StrSplit(text, ' ');
  uint64_t resident, shared;
  if (fields.size() < 3 || !absl::SimpleAtoi(fields[1], &resident) ||
      !absl::SimpleAtoi(fields[2], &shared) || shared > resident) {
    return 0;
  }
  return (resident - shared) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

uint64_t TreeAnonymousBytes(pid_t root) {
  std::vector<pid_t> found;
  AddChildren(root, found);
  uint64_t total = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    total += AnonymousBytes(found[i]);
    AddChildren(found[i], found);
  }
  return total;
}

}  // namespace belfry::artifacts
