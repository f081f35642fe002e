#include "server/artifacts/eviction.h"

#include <algorithm>
#include <tuple>

namespace belfry::artifacts {

std::vector<std::string> ChooseEvictions(std::vector<EvictionCandidate> artifacts,
                                         uint64_t quota_bytes) {
  std::sort(artifacts.begin(), artifacts.end(), [](const auto& a, const auto& b) {
    return std::tie(a.last_use_ns, a.key) < std::tie(b.last_use_ns, b.key);
  });
  std::vector<std::string> leave;
  uint64_t total = 0;
  for (const EvictionCandidate& a : artifacts) {
    if (a.bytes <= quota_bytes) {
      total += a.bytes;
    } else if (!a.pinned) {
      leave.push_back(a.key);
    }
  }
  for (const EvictionCandidate& a : artifacts) {
    if (total <= quota_bytes) break;
    if (a.pinned || a.bytes > quota_bytes) continue;
    leave.push_back(a.key);
    total -= a.bytes;
  }
  return leave;
}

}  // namespace belfry::artifacts
