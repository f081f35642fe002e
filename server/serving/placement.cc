#include "server/serving/placement.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

struct DriverTarget {
  std::string_view driver;
  std::string_view target;
};
constexpr DriverTarget kTargets[] = {{"cpu", "cpu"}, {"spyre-sim", "spyre"}};

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

std::string KnownTargets() {
  std::set<std::string> targets;
  for (const auto& known : kTargets) targets.emplace(known.target);
  return absl::StrJoin(targets, ", ");
}

std::vector<std::string> FaultsOf(const ModelConfig& config, std::span<cards::Card* const> cards) {
  std::vector<std::string> faults;
  for (const std::string& target : config.targets) {
    const bool known = std::any_of(std::begin(kTargets), std::end(kTargets),
                                   [&](const DriverTarget& t) { return t.target == target; });
    if (known) continue;
    faults.push_back(absl::StrCat("targets: '", telemetry::Sanitize(target, 64),
                                  "' is not known, expected one of ", KnownTargets()));
  }
  for (const std::string& wish : config.cards) {
    if (std::any_of(cards.begin(), cards.end(), [&](auto* card) { return Means(wish, *card); })) {
      continue;
    }
    faults.push_back(absl::StrCat("cards: '", telemetry::Sanitize(wish, 64),
                                  "' is not here, there is ", Names(cards)));
  }
  return faults;
}

}  // namespace

std::optional<std::string> TargetOfDriver(std::string_view driver) {
  for (const auto& known : kTargets) {
    if (known.driver == driver) return std::string(known.target);
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<Placement>> Place(const ModelConfig& config,
                                             std::span<cards::Card* const> cards) {
  const auto faults = FaultsOf(config, cards);
  if (!faults.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("model.yaml: ", absl::StrJoin(faults, "; ")));
  }
  std::vector<Placement> placements;
  for (cards::Card* card : cards) {
    const auto target = TargetOfDriver(card->driver());
    if (!target || !Wanted(config.cards, *card)) continue;
    const auto& targets = config.targets;
    if (!targets.empty() && std::find(targets.begin(), targets.end(), *target) == targets.end()) {
      continue;
    }
    auto same = std::find_if(placements.begin(), placements.end(),
                             [&](const Placement& p) { return p.driver == card->driver(); });
    if (same == placements.end()) {
      placements.push_back({card->driver(), *target, {}});
      same = placements.end() - 1;
    }
    same->cards.push_back(card);
  }
  if (!placements.empty()) return placements;
  const std::string targets =
      config.targets.empty() ? std::string("any") : absl::StrJoin(config.targets, ", ");
  return absl::FailedPreconditionError(
      absl::StrCat("no card can run it: target ", targets, ", cards ",
                   config.cards.empty() ? std::string("any") : absl::StrJoin(config.cards, ", "),
                   "; there is ", Names(cards)));
}

}  // namespace belfry::serving
