// Which cards a version is served on, and what it has to be compiled for.
#ifndef BELFRY_SERVER_SERVING_PLACEMENT_H_
#define BELFRY_SERVER_SERVING_PLACEMENT_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/cards/card.h"
#include "server/serving/model_config.h"

namespace belfry::serving {

// The compile target that a driver runs; nullopt for a driver that has none.
std::optional<std::string> TargetOfDriver(std::string_view driver);

// Cards of one driver: they share an artifact.
struct Placement {
  std::string driver;
  std::string target;
  std::vector<cards::Card*> cards;  // ascending index
};

// The cards that 'targets' and 'cards' of model.yaml leave; empty lists mean
// all. FAILED_PRECONDITION names every wish that cannot be met and what there
// is; a wish that can be met in part is none.
absl::StatusOr<std::vector<Placement>> Place(const ModelConfig& config,
                                             std::span<cards::Card* const> cards);

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_PLACEMENT_H_
