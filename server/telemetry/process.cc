#include "server/telemetry/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace belfry::telemetry {
namespace {

std::string ReadProc(const char* path, size_t limit) {
  std::string text;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[4096];
  ssize_t n;
  while (text.size() < limit && (n = read(fd, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return text;
}

// Seconds since the epoch at which the host started; it does not change.
double BootTime() {
  static const double boot = [] {
    // One line per interrupt precedes it on large hosts.
    for (absl::string_view line : absl::StrSplit(ReadProc("/proc/stat", 8 << 20), '\n')) {
      double seconds;
      if (absl::ConsumePrefix(&line, "btime ") && absl::SimpleAtod(line, &seconds)) return seconds;
    }
    return 0.0;
  }();
  return boot;
}

uint64_t CountOpenFds() {
  DIR* dir = opendir("/proc/self/fd");
  if (dir == nullptr) return 0;
  uint64_t count = 0;
  while (const dirent* entry = readdir(dir)) count += entry->d_name[0] != '.';
  closedir(dir);
  return count > 0 ? count - 1 : 0;  // not the one that reads the folder
}

}  // namespace

std::optional<ProcessSample> SampleProcess() {
  const std::string stat = ReadProc("/proc/self/stat", 4096);
  // The second field is the name in brackets and may hold anything.
  const size_t close = stat.rfind(')');
  if (close == std::string::npos || close + 2 > stat.size()) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(stat).substr(close + 2), ' ');
  // proc(5) counts from 1; fields[0] is number 3.
  const auto field = [&fields](size_t number) {
    uint64_t value = 0;
    if (number - 3 < fields.size() && !absl::SimpleAtoi(fields[number - 3], &value)) value = 0;
    return value;
  };
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  ProcessSample sample;
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0) {  // finer than the ticks of /proc
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    sample.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  sample.threads = field(20);
  sample.start_time_seconds = BootTime() + static_cast<double>(field(22)) / ticks;
  sample.virtual_bytes = field(23);
  sample.resident_bytes = field(24) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  sample.open_fds = CountOpenFds();
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    sample.max_fds = limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<double>::infinity()
                                                     : static_cast<double>(limit.rlim_cur);
  }
  return sample;
}

}  // namespace belfry::telemetry
