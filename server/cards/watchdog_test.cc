#include "server/cards/watchdog.h"

#include <vector>

#include "gtest/gtest.h"

namespace belfry::cards {
namespace {

TEST(WatchdogTest, NothingToDo) { EXPECT_FALSE(FindRunning({}, 5).has_value()); }

TEST(WatchdogTest, OldestRunsSinceItsSubmission) {
  const std::vector<WorkItem> items = {{9, 100, 10}, {8, 50, 20}};
  const auto running = FindRunning(items, /*last_answer=*/0);
  ASSERT_TRUE(running.has_value());
  EXPECT_EQ(running->index, 1u);
  EXPECT_EQ(running->sequence, 8u);
  EXPECT_EQ(running->since, 50);
  EXPECT_EQ(running->deadline, 70);
}

TEST(WatchdogTest, WaitingBehindAnotherDoesNotCount) {
  // Submitted at 50, but the card was busy with another until 1000.
  const std::vector<WorkItem> items = {{2, 50, 20}};
  const auto running = FindRunning(items, /*last_answer=*/1000);
  ASSERT_TRUE(running.has_value());
  EXPECT_EQ(running->since, 1000);
  EXPECT_EQ(running->deadline, 1020);
}

TEST(WatchdogTest, NoLimitAndHugeLimitNeverEnd) {
  const std::vector<WorkItem> none = {{1, 50, 0}};
  EXPECT_EQ(FindRunning(none, 0)->deadline, kNever);
  const std::vector<WorkItem> huge = {{1, 50, kNever}};
  EXPECT_EQ(FindRunning(huge, 0)->deadline, kNever);
}

}  // namespace
}  // namespace belfry::cards
