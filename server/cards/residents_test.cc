#include "server/cards/residents.h"

#include <thread>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::cards {
namespace {

using ::testing::ElementsAre;

ExecutableSpec Spec(ExecutableId id, const char* label) { return {id, label, "", "echo"}; }

TEST(ResidentsTest, ReloadGoesThroughAllOnce) {
  Residents residents;
  residents.Add(Spec(2, "b"));
  residents.Add(Spec(1, "a"));
  std::set<ExecutableId> loaded;
  std::vector<std::string> labels;
  while (const auto next = residents.NextToLoad(loaded)) {
    labels.push_back(next->spec.label);
    loaded.insert(next->spec.id);
  }
  EXPECT_THAT(labels, ElementsAre("a", "b"));
}

TEST(ResidentsTest, TwoStrikesInARowDrop) {
  Residents residents;
  residents.Add(Spec(1, "a"));
  EXPECT_FALSE(residents.Strike(1));
  residents.ClearStrikes(1);
  EXPECT_FALSE(residents.Strike(1));
  EXPECT_TRUE(residents.Contains(1));
  EXPECT_TRUE(residents.Strike(1));
  EXPECT_FALSE(residents.Contains(1));
  EXPECT_FALSE(residents.Strike(1));
}

TEST(ResidentsTest, WarmShapesAreKeptOnce) {
  Residents residents;
  residents.Add(Spec(1, "a"));
  const std::vector<WarmShape> shapes = {{{"batch", 1}}, {{"batch", 8}}};
  residents.AddWarmed(1, shapes);
  residents.AddWarmed(1, shapes);
  residents.AddWarmed(2, shapes);  // not a resident: nothing to remember
  EXPECT_EQ(residents.Find(1)->warmed, shapes);
  EXPECT_FALSE(residents.Contains(2));
}

TEST(ResidentsTest, SecondLoaderWaitsForTheFirst) {
  Residents residents;
  ASSERT_TRUE(residents.BeginLoad(1));
  bool second = true;
  std::thread thread([&] { second = residents.BeginLoad(1); });
  residents.Add(Spec(1, "a"));
  residents.EndLoad(1);
  thread.join();
  EXPECT_FALSE(second);
}

}  // namespace
}  // namespace belfry::cards
