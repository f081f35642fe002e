// Which cores each card gets.
#ifndef BELFRY_SERVER_CARDS_CORES_H_
#define BELFRY_SERVER_CARDS_CORES_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace belfry::cards {

// 'cores_per_card' of the 'allowed' cores for each card, no core twice, in the
// given order (neighbours share caches on the machines we know).
// INVALID_ARGUMENT says how many are needed if there are too few.
absl::StatusOr<std::vector<std::vector<int>>> AssignCores(int cards, int cores_per_card,
                                                          std::span<const int> allowed);

// The cores on which this thread may run, ascending (a container's limit
// counts, the machine's size does not).
absl::StatusOr<std::vector<int>> AllowedCores();

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_CORES_H_
