#include "server/serving/placement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

// "cpu" means every card of the driver, "cpu:0" one.
bool Means(const std::string& wish, const cards::Card& card) {
  return wish == card.name() || wish == card.driver();
}

bool Wanted(const std::vector<std::string>& wishes, const cards::Card& card) {
  return wishes.empty() || std::any_of(wishes.begin(), wishes.end(), [&](const auto& wish) {
           return Means(wish, card);
         });
}

std::string Names(std::span<cards::Card* const> cards) {
  if (cards.empty()) return "no card";
  return absl::StrJoin(cards, ", ",
                       [](std::string* out, cards::Card* card) { *out += card->name(); });
}

bool Listed(const std::vector<std::string>& list, const std::string& name) {
  return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
}

std::string Shown(const std::vector<std::string>& list) {
  if (list.empty()) return "any";
  return telemetry::Sanitize(absl::StrJoin(list, ", "), 256);
}

// The places for cards of one driver, in the order in which drivers come.
Placement& PlaceFor(const cards::Card& card, std::vector<Placement>& placements) {
  for (Placement& placement : placements) {
    if (placement.driver == card.driver()) return placement;
  }
  placements.push_back({card.driver(), TargetOfDriver(card.driver()), {}});
  return placements.back();
}

}  // namespace

std::string TargetOfDriver(std::string_view driver) {
  return driver == "spyre-sim" ? "spyre" : std::string(driver);
}

absl::StatusOr<std::vector<Placement>> Place(const ModelConfig& config,
                                             std::span<cards::Card* const> cards) {
  std::vector<std::string> absent;
  for (const std::string& wish : config.cards) {
    if (std::none_of(cards.begin(), cards.end(), [&](auto* card) { return Means(wish, *card); })) {
      absent.push_back(absl::StrCat("'", telemetry::Sanitize(wish, 64), "'"));
    }
  }
  if (!absent.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("model.yaml: cards: ", absl::StrJoin(absent, ", "),
                     absent.size() == 1 ? " is" : " are", " not here, there is ", Names(cards)));
  }
  std::vector<Placement> placements;
  for (cards::Card* card : cards) {
    if (!Wanted(config.cards, *card)) continue;
    if (!Listed(config.targets, TargetOfDriver(card->driver()))) continue;
    PlaceFor(*card, placements).cards.push_back(card);
  }
  if (!placements.empty()) return placements;
  return absl::FailedPreconditionError(
      absl::StrCat("no card can run it: wanted are targets ", Shown(config.targets), " on cards ",
                   Shown(config.cards), ", there is ", Names(cards)));
}

}  // namespace belfry::serving
