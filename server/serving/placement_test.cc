#include "server/serving/placement.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/serving/fake_card.h"

namespace belfry::serving {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class PlacementTest : public testing::Test {
 protected:
  PlacementTest() {
    for (const auto& [name, driver] : std::vector<std::pair<std::string, std::string>>{
             {"cpu:0", "cpu"}, {"cpu:1", "cpu"}, {"spyre-sim:0", "spyre-sim"}}) {
      owned_.push_back(std::make_unique<FakeCard>(static_cast<int>(owned_.size()), name, driver));
      cards_.push_back(owned_.back().get());
    }
  }
  // "cpu>cpu: cpu:0 cpu:1"
  std::vector<std::string> Placed(const ModelConfig& config) {
    const auto placed = Place(config, cards_);
    if (!placed.ok()) return {std::string(placed.status().message())};
    std::vector<std::string> out;
    for (const Placement& p : *placed) {
      out.push_back(p.driver + ">" + p.target + ":");
      for (const auto* card : p.cards) out.back() += " " + card->name();
    }
    return out;
  }

  std::vector<std::unique_ptr<FakeCard>> owned_;
  std::vector<cards::Card*> cards_;
};

TEST_F(PlacementTest, EveryCardByDefault) {
  EXPECT_THAT(Placed({}), ElementsAre("cpu>cpu: cpu:0 cpu:1", "spyre-sim>spyre: spyre-sim:0"));
}

TEST_F(PlacementTest, ATargetLeavesTheCardsOfItsDrivers) {
  EXPECT_THAT(Placed({.targets = {"spyre"}}), ElementsAre("spyre-sim>spyre: spyre-sim:0"));
  EXPECT_THAT(Placed({.targets = {"cpu", "gpu"}}), ElementsAre("cpu>cpu: cpu:0 cpu:1"));
}

TEST_F(PlacementTest, CardsByNameOrByDriver) {
  EXPECT_THAT(Placed({.cards = {"cpu:1"}}), ElementsAre("cpu>cpu: cpu:1"));
  EXPECT_THAT(Placed({.cards = {"cpu:1", "spyre-sim"}}),
              ElementsAre("cpu>cpu: cpu:1", "spyre-sim>spyre: spyre-sim:0"));
}

TEST_F(PlacementTest, WhatIsNotHereIsNamedTogetherWithWhatIs) {
  EXPECT_THAT(Placed({.cards = {"cpu:7", "gpu", "cpu:0"}}),
              ElementsAre(AllOf(HasSubstr("'cpu:7', 'gpu' are not here"),
                                HasSubstr("cpu:0, cpu:1, spyre-sim:0"))));
  EXPECT_THAT(Placed({.targets = {"gpu"}}),
              ElementsAre(AllOf(HasSubstr("no card can run it"), HasSubstr("gpu"))));
  EXPECT_THAT(Placed({.cards = {"cpu:0"}, .targets = {"spyre"}}),
              ElementsAre(HasSubstr("no card can run it")));
}

TEST_F(PlacementTest, NoCards) {
  const auto placed = Place({}, {});
  EXPECT_EQ(placed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(placed.status().message()), HasSubstr("there is no card"));
}

}  // namespace
}  // namespace belfry::serving
