// When a card's process that was lost is started again.
#ifndef BELFRY_SERVER_CARDS_BACKOFF_H_
#define BELFRY_SERVER_CARDS_BACKOFF_H_

#include "absl/time/time.h"

namespace belfry::cards {

// So long must a card have been READY for its past to be forgotten.
inline constexpr absl::Duration kGoodService = absl::Minutes(1);

// Failures in a row, including the one that has just happened, of a card whose
// process was READY for 'served' (zero: it never was).
int FailuresAfter(int failures_before, absl::Duration served);

// How long to wait after that many failures in a row: 'first' after the first,
// twice as long after each further one, never more than 'limit'.
absl::Duration RestartDelay(int failures, absl::Duration first, absl::Duration limit);

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_BACKOFF_H_
