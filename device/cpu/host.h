// What this host is, in the words of an artifact's key.
#ifndef BELFRY_DEVICE_CPU_HOST_H_
#define BELFRY_DEVICE_CPU_HOST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace belfry::cpu {

std::string HostArch();  // "x86_64", "s390x", as uname says

// Instruction sets that a host of this architecture runs, best first, never
// empty; named as the compiler names them. 'cpuinfo' is the text of
// /proc/cpuinfo.
std::vector<std::string> IsasOf(std::string_view arch, std::string_view cpuinfo);
std::vector<std::string> HostIsas();

// Bytes that this process has resident.
uint64_t ResidentBytes();

// Memory of the host or of the control group that the process is in, whichever
// is less.
uint64_t HostMemoryBytes();

}  // namespace belfry::cpu

#endif  // BELFRY_DEVICE_CPU_HOST_H_
