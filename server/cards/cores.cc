#include "server/cards/cores.h"

#include <sched.h>

#include <cerrno>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace belfry::cards {

absl::StatusOr<std::vector<std::vector<int>>> AssignCores(int cards, int cores_per_card,
                                                          std::span<const int> allowed) {
  if (cards < 0 || cores_per_card < 1) {
    return absl::InvalidArgumentError(absl::StrCat("cannot pin ", cards, " cards to ",
                                                   cores_per_card,
                                                   " cores each; at least one core is expected"));
  }
  const int64_t needed = static_cast<int64_t>(cards) * cores_per_card;
  if (needed > static_cast<int64_t>(allowed.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("pinning ", cards, " cards to ", cores_per_card, " cores each needs ", needed,
                     " cores, this process may use ", allowed.size()));
  }
  std::vector<std::vector<int>> out(cards);
  size_t next = 0;
  for (auto& cores : out) {
    for (int i = 0; i < cores_per_card; ++i) cores.push_back(allowed[next++]);
  }
  return out;
}

absl::StatusOr<std::vector<int>> AllowedCores() {
  // The kernel refuses a set smaller than its own; the size grows until it fits.
  for (int bits = 1024; bits <= (1 << 20); bits *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(bits),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    const size_t bytes = CPU_ALLOC_SIZE(bits);
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(0, bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      return absl::ErrnoToStatus(errno, "sched_getaffinity");
    }
    std::vector<int> out;
    for (int cpu = 0; cpu < bits; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.get())) out.push_back(cpu);
    }
    return out;
  }
  return absl::InternalError("sched_getaffinity: the kernel's CPU set has more than 2^20 bits");
}

}  // namespace belfry::cards
