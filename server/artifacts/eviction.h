// Which artifacts leave when the cache is over its quota: a pure function.
#ifndef BELFRY_SERVER_ARTIFACTS_EVICTION_H_
#define BELFRY_SERVER_ARTIFACTS_EVICTION_H_

#include <cstdint>
#include <string>
#include <vector>

namespace belfry::artifacts {

struct EvictionCandidate {
  std::string key;
  uint64_t bytes = 0;
  int64_t last_use_ns = 0;
  bool pinned = false;
};

// The keys to remove, first one first:
//  - never one that is pinned;
//  - one that alone exceeds the quota goes as soon as nobody uses it, and until
//    then does not count: it would push out everything and still not fit;
//  - then the least recently used, until the others fit.
std::vector<std::string> ChooseEvictions(std::vector<EvictionCandidate> artifacts,
                                         uint64_t quota_bytes);

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_EVICTION_H_
