#include "device/cpu/host.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace belfry::cpu {
namespace {

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// The feature words of the first processor.
std::set<std::string> Features(std::string_view cpuinfo) {
  std::istringstream lines{std::string(cpuinfo)};
  std::string line;
  while (std::getline(lines, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string name = line.substr(0, colon);
    name.erase(std::find_if(name.rbegin(), name.rend(), [](char c) { return c > ' '; }).base(),
               name.end());
    if (name != "flags" && name != "features" && name != "Features") continue;
    std::istringstream words(line.substr(colon + 1));
    return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
  }
  return {};
}

bool HasAll(const std::set<std::string>& features, std::initializer_list<const char*> needed) {
  return std::all_of(needed.begin(), needed.end(),
                     [&](const char* name) { return features.contains(name); });
}

}  // namespace

std::string HostArch() {
  utsname host = {};
  uname(&host);
  return host.machine;
}

std::vector<std::string> IsasOf(std::string_view arch, std::string_view cpuinfo) {
  std::vector<std::string> isas;
  if (arch == "x86_64") {
    const std::set<std::string> features = Features(cpuinfo);
    const bool avx2 = HasAll(features, {"avx2", "fma", "f16c"});
    if (avx2 && HasAll(features, {"avx512f", "avx512dq", "avx512vl", "avx512bw"})) {
      isas.push_back("avx512");
    }
    if (avx2) isas.push_back("avx2");
  } else if (arch == "s390x") {
    if (HasAll(Features(cpuinfo), {"vxe"})) isas.push_back("zvector");
  } else if (arch == "ppc64le") {
    isas.push_back("vsx");
  }
  isas.push_back("default");
  return isas;
}

std::vector<std::string> HostIsas() { return IsasOf(HostArch(), ReadAll("/proc/cpuinfo")); }

uint64_t ResidentBytes() {
  std::istringstream words(ReadAll("/proc/self/statm"));
  uint64_t size = 0, resident = 0;
  words >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t HostMemoryBytes() {
  uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // In a container, the container's own group is the root of what is mounted.
  const std::string limit = ReadAll("/sys/fs/cgroup/memory.max");  // or "max"
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(limit.data(), limit.data() + limit.size(), value);
  if (error == std::errc() && end != limit.data() && value != 0) bytes = std::min(bytes, value);
  return bytes;
}

}  // namespace belfry::cpu
