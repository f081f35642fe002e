#include "server/scheduling/batch_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace belfry::scheduling {
namespace {

constexpr MonoNs kMs = 1'000'000;

// Limits as model.yaml and signatures produce them, drawn at random.
BatchLimits RandomLimits(std::mt19937& rng) {
  const auto draw = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(rng);
  };
  BatchLimits limits;
  limits.max_rows = draw(1, 300);
  switch (draw(0, 3)) {
    case 0:
      break;
    case 1:
      limits.min_executed = draw(1, 4);
      break;
    case 2:
      for (int64_t b = draw(1, 4); b < limits.max_rows; b *= 2) limits.buckets.push_back(b);
      limits.buckets.push_back(limits.max_rows);
      break;
    case 3:
      limits.exact_executed = limits.max_rows;
      break;
  }
  return limits;
}

TEST(ChooseRows, HoldsItsPropertiesForRandomLimits) {
  std::mt19937 rng(7);
  for (int round = 0; round < 2000; ++round) {
    const BatchLimits limits = RandomLimits(rng);
    const int64_t room = std::uniform_int_distribution<int64_t>(0, 400)(rng);
    const bool one_fits = ExecutedRows(1, limits) <= room;
    int64_t before = 0;
    for (int64_t waiting = 0; waiting <= 700; ++waiting) {
      const int64_t rows = ChooseRows(waiting, room, limits);
      ASSERT_GE(rows, before) << "a batch got smaller as load grew";
      ASSERT_LE(rows, waiting);
      ASSERT_LE(rows, limits.max_rows);
      if (rows > 0) {
        const int64_t executed = ExecutedRows(rows, limits);
        ASSERT_GE(executed, rows);
        ASSERT_LE(executed, room) << "the padded batch does not fit";
        ASSERT_GE(executed, limits.min_executed);
        if (limits.exact_executed > 0) {
          ASSERT_EQ(executed, limits.exact_executed);
        }
      }
      if (waiting > 0 && one_fits) {
        ASSERT_GT(rows, 0) << "what fits must be able to run";
      }
      before = rows;
    }
  }
}

TEST(ExecutedRows, RoundsUpToTheNextBucket) {
  const BatchLimits limits{.max_rows = 64, .buckets = {4, 16, 64}};
  EXPECT_EQ(ExecutedRows(1, limits), 4);
  EXPECT_EQ(ExecutedRows(4, limits), 4);
  EXPECT_EQ(ExecutedRows(5, limits), 16);
  EXPECT_EQ(ExecutedRows(64, limits), 64);
}

TEST(ExecutedRows, RespectsTheLeastThatTheCompiledCodeTakes) {
  EXPECT_EQ(ExecutedRows(1, {.max_rows = 64, .min_executed = 2}), 2);
  EXPECT_EQ(ExecutedRows(3, {.max_rows = 64, .min_executed = 2}), 3);
}

TEST(MoreUrgent, IsPriorityThenDeadlineThenArrival) {
  const WaitingRequest urgent{.priority = 1, .deadline = kNever, .arrival = 9};
  const WaitingRequest soon{.priority = 2, .deadline = 10, .arrival = 8};
  const WaitingRequest first{.priority = 2, .deadline = kNever, .arrival = 1};
  const WaitingRequest second{.priority = 2, .deadline = kNever, .arrival = 2};
  EXPECT_TRUE(MoreUrgent(urgent, soon));
  EXPECT_TRUE(MoreUrgent(soon, first));
  EXPECT_TRUE(MoreUrgent(first, second));
  EXPECT_FALSE(MoreUrgent(second, first));
  EXPECT_FALSE(MoreUrgent(first, first));
}

TEST(ChooseGroup, TakesTheMostUrgentHead) {
  const std::vector<GroupView> groups = {
      {.urgent = {.priority = 2, .arrival = 1}, .oldest_enqueued = 100, .rows = 3},
      {.urgent = {.priority = 1, .arrival = 5}, .oldest_enqueued = 200, .rows = 1},
  };
  EXPECT_EQ(ChooseGroup(groups, 300), 1);
}

TEST(ChooseGroup, NeverPicksAnEmptyGroup) {
  EXPECT_EQ(ChooseGroup({}, 0), -1);
  const std::vector<GroupView> groups = {
      {.urgent = {.priority = 1}, .oldest_enqueued = 0, .rows = 0},
      {.urgent = {.priority = 3}, .oldest_enqueued = 0, .rows = 1},
  };
  EXPECT_EQ(ChooseGroup(groups, 1), 1);
}

// However urgent the newcomers of other groups are, each head is served within
// the starvation limit plus one turn for every other group that starves too.
TEST(ChooseGroup, NeverStarvesAGroup) {
  std::mt19937 rng(11);
  constexpr int kGroups = 6;
  std::vector<GroupView> groups(kGroups);
  std::vector<MonoNs> waiting_since(kGroups, 0);
  MonoNs now = 0;
  MonoNs worst = 0;
  uint64_t arrival = 0;
  const auto refill = [&](int g) {
    // Group 0 is the least urgent of all, always.
    groups[g] = {.urgent = {.priority = g == 0 ? 3u : 1u,
                            .deadline = g == 0 ? kNever : now + 1,
                            .arrival = arrival++},
                 .oldest_enqueued = now,
                 .rows = 1};
    waiting_since[g] = now;
  };
  for (int g = 0; g < kGroups; ++g) refill(g);
  for (int turn = 0; turn < 5000; ++turn) {
    now += std::uniform_int_distribution<MonoNs>(kMs, 20 * kMs)(rng);
    const int chosen = ChooseGroup(groups, now);
    ASSERT_GE(chosen, 0);
    worst = std::max(worst, now - waiting_since[chosen]);
    refill(chosen);
    for (int g = 0; g < kGroups; ++g) worst = std::max(worst, now - waiting_since[g]);
  }
  EXPECT_LE(worst, kStarvationNs + (kGroups + 1) * 20 * kMs);
}

TEST(ReadyAt, CountsTheDelayFromTheOldestAndNotForAFullBatch) {
  const BatchLimits limits{.max_rows = 8, .delay = 5 * kMs};
  EXPECT_EQ(ReadyAt({.oldest_enqueued = 100, .rows = 3}, limits), 100 + 5 * kMs);
  EXPECT_EQ(ReadyAt({.oldest_enqueued = 100, .rows = 8}, limits), 100);
  EXPECT_EQ(ReadyAt({.oldest_enqueued = 100, .rows = 3}, {.max_rows = 8}), 100);
}

TEST(ChooseModel, GivesEqualSharesToModelsThatAlwaysHaveWork) {
  // Batches of the first take ten times as long as those of the second.
  std::vector<ModelView> models(2);
  const double cost[] = {0.010, 0.001};
  double used[] = {0, 0};
  for (int turn = 0; turn < 10000; ++turn) {
    const int chosen = ChooseModel(models, 0);
    models[chosen].consumed += cost[chosen];
    used[chosen] += cost[chosen];
  }
  EXPECT_NEAR(used[0] / used[1], 1.0, 0.05);
}

TEST(ChooseModel, PutsPriorityFirstButNotForEver) {
  std::vector<ModelView> models = {
      {.priority = 1, .oldest_enqueued = 0, .consumed = 100},
      {.priority = 3, .oldest_enqueued = 0, .consumed = 0},
  };
  EXPECT_EQ(ChooseModel(models, 1), 0);
  // Both have waited for too long now: the account decides.
  EXPECT_EQ(ChooseModel(models, kStarvationNs + 2), 1);
  EXPECT_EQ(ChooseModel({}, 0), -1);
}

}  // namespace
}  // namespace belfry::scheduling
