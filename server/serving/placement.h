// Which cards a version is served on, and what it has to be compiled for.
#ifndef BELFRY_SERVER_SERVING_PLACEMENT_H_
#define BELFRY_SERVER_SERVING_PLACEMENT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/cards/card.h"
#include "server/serving/model_config.h"

namespace belfry::serving {

// The compile target that a driver runs: of its own name, but for the simulated
// card, which runs what is compiled for the real one.
std::string TargetOfDriver(std::string_view driver);

// Cards of one driver: they share an artifact.
struct Placement {
  std::string driver;
  std::string target;
  std::vector<cards::Card*> cards;  // ascending index
};

// The cards that 'targets' and 'cards' of model.yaml leave; empty lists mean
// all. A model.yaml may be written for several hosts, so a target that nobody
// here runs is passed over as long as another is left. FAILED_PRECONDITION names
// what was wished and what there is.
absl::StatusOr<std::vector<Placement>> Place(const ModelConfig& config,
                                             std::span<cards::Card* const> cards);

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_PLACEMENT_H_
