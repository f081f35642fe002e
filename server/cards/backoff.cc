#include "server/cards/backoff.h"

#include <algorithm>
#include <limits>

namespace belfry::cards {

int FailuresAfter(int failures_before, absl::Duration served) {
  if (served >= kGoodService) return 1;
  return failures_before == std::numeric_limits<int>::max() ? failures_before : failures_before + 1;
}

absl::Duration RestartDelay(int failures, absl::Duration first, absl::Duration limit) {
  absl::Duration delay = std::min(first, limit);
  for (int i = 1; i < failures && delay < limit; ++i) {
    if (delay <= absl::ZeroDuration()) return absl::ZeroDuration();
    delay = std::min(delay * 2, limit);
  }
  return std::max(delay, absl::ZeroDuration());
}

}  // namespace belfry::cards
