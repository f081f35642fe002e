#include "server/serving/queue_plan.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::serving {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Signature Rows(int64_t min, int64_t max) {
  Signature s;
  s.inputs.push_back({.name = "x", .dtype = DataType::kFp32, .batch_axis = 0});
  s.outputs.push_back({.name = "y", .dtype = DataType::kFp32, .batch_axis = 0});
  s.symbols["batch"] = {min, max};
  s.batchable = true;
  s.batch_symbol = "batch";
  return s;
}

scheduling::QueueOptions Plan(const ModelConfig& config, const Signature& signature,
                              std::string_view report = "{}") {
  auto queue = PlanQueue(config, signature, report);
  EXPECT_TRUE(queue.ok()) << queue.status();
  return queue.ok() ? *std::move(queue) : scheduling::QueueOptions();
}

std::string Fault(const ModelConfig& config, const Signature& signature) {
  const auto queue = PlanQueue(config, signature, "{}");
  EXPECT_EQ(queue.status().code(), absl::StatusCode::kFailedPrecondition);
  return std::string(queue.status().message());
}

TEST(QueuePlanTest, TheSymbolsMaximumLimitsTheBatch) {
  EXPECT_EQ(Plan({}, Rows(1, 100)).limits.max_rows, 100);
  EXPECT_EQ(Plan({}, Rows(1, INT64_MAX)).limits.max_rows, kDefaultMaxBatch);
  EXPECT_EQ(Plan({.max_batch = 4096}, Rows(1, INT64_MAX)).limits.max_rows, 4096);
  EXPECT_EQ(Plan({.max_batch = 8}, Rows(1, 100)).limits.max_rows, 8);
}

TEST(QueuePlanTest, TheCompiledMinimumIsKept) {
  const auto queue = Plan({}, Rows(2, 100));
  EXPECT_EQ(queue.limits.min_executed, 2);
  EXPECT_TRUE(queue.join);
}

TEST(QueuePlanTest, NothingLargerThanTheLargestBucketIsExecuted) {
  const auto queue = Plan({.batch_buckets = {1, 8, 32}}, Rows(1, 100));
  EXPECT_THAT(queue.limits.buckets, ElementsAre(1, 8, 32));
  EXPECT_EQ(queue.limits.max_rows, 32);
}

TEST(QueuePlanTest, BucketsOfTheBatchSymbolAreBatchBuckets) {
  const auto queue = Plan({.buckets = {{"batch", {4, 16}}}}, Rows(1, 100));
  EXPECT_THAT(queue.limits.buckets, ElementsAre(4, 16));
  EXPECT_THAT(queue.buckets, IsEmpty());
}

TEST(QueuePlanTest, RowsThatSeeEachOtherAreNeverJoinedPaddedOrCut) {
  Signature s = Rows(2, 100);
  s.batchable = false;
  s.unbatched_reason = "attention over the batch axis";
  const auto queue = Plan({.max_batch = 64,
                           .batch_buckets = {8, 64},
                           .batch_delay = absl::Milliseconds(5),
                           .deterministic = true},
                          s);
  EXPECT_FALSE(queue.join);
  EXPECT_EQ(queue.limits.max_rows, 1);
  EXPECT_EQ(queue.limits.min_executed, 1);
  EXPECT_EQ(queue.limits.exact_executed, 0);
  EXPECT_EQ(queue.limits.delay, 0);
  EXPECT_THAT(queue.limits.buckets, IsEmpty());
}

TEST(QueuePlanTest, BatchingSwitchedOffStillPadsAndCuts) {
  const auto queue =
      Plan({.max_batch = 16, .batch_delay = absl::Milliseconds(5), .batching = false},
           Rows(2, 100));
  EXPECT_FALSE(queue.join);
  EXPECT_EQ(queue.limits.max_rows, 16);
  EXPECT_EQ(queue.limits.min_executed, 2);
  EXPECT_EQ(queue.limits.delay, 0);
}

TEST(QueuePlanTest, AFixedBatchAxisIsAlwaysFull) {
  Signature s = Rows(1, 1);
  s.symbols.clear();
  s.batch_symbol.clear();
  s.fixed_batch = 16;
  EXPECT_EQ(Plan({}, s).limits.exact_executed, 16);
  EXPECT_EQ(Plan({}, s).limits.max_rows, 16);
  EXPECT_EQ(Plan({.max_batch = 4}, s).limits.max_rows, 4);
  EXPECT_EQ(Plan({.max_batch = 64}, s).limits.max_rows, 16);
  EXPECT_THAT(Fault({.batch_buckets = {8, 16}}, s),
              AllOf(HasSubstr("got 8"), HasSubstr("expected 16")));
}

TEST(QueuePlanTest, DeterministicRunsAtTheSizeThatWasChecked) {
  const char* report = R"({"deterministic": {"checked": true, "size": 64}})";
  const auto queue =
      Plan({.batch_buckets = {8, 128}, .deterministic = true}, Rows(1, 1024), report);
  EXPECT_EQ(queue.limits.exact_executed, 64);
  EXPECT_EQ(queue.limits.max_rows, 64);
  EXPECT_THAT(queue.limits.buckets, IsEmpty());
  // Not wished: the check alone changes nothing.
  EXPECT_EQ(Plan({}, Rows(1, 1024), report).limits.exact_executed, 0);
}

TEST(QueuePlanTest, DeterministicNeedsASize) {
  const auto limits = Plan({.max_batch = 32, .deterministic = true}, Rows(1, 1024)).limits;
  EXPECT_EQ(limits.exact_executed, 32);
  EXPECT_THAT(Fault({.deterministic = true}, Rows(1, 1024)),
              AllOf(HasSubstr("deterministic"), HasSubstr("max_batch")));
}

TEST(QueuePlanTest, AllFaultsAtOnce) {
  const std::string fault = Fault({.max_batch = 2048,
                                   .batch_buckets = {1, 64},
                                   .labels = {{"nope", {"a"}}},
                                   .buckets = {{"seq", {128}}}},
                                  Rows(2, 1024));
  EXPECT_THAT(fault, AllOf(HasSubstr("max_batch: got 2048"), HasSubstr("2..1024"),
                           HasSubstr("batch_buckets: got 1"), HasSubstr("no output 'nope'"),
                           HasSubstr("no symbol 'seq', it has batch")));
}

TEST(QueuePlanTest, TheRestIsTakenOver) {
  Signature s = Rows(1, 1024);
  s.symbols["seq"] = {1, 512};
  const auto queue = Plan({.batch_delay = absl::Milliseconds(2),
                           .max_queue = 7,
                           .priority = 1,
                           .default_deadline = absl::Seconds(3),
                           .watchdog = absl::Seconds(4),
                           .labels = {{"y", {"no", "yes"}}},
                           .buckets = {{"seq", {128, 512}}}},
                          s);
  EXPECT_EQ(queue.limits.delay, 2'000'000);
  EXPECT_EQ(queue.max_queue, 7);
  EXPECT_EQ(queue.default_priority, 1u);
  EXPECT_EQ(queue.default_deadline, 3'000'000'000);
  EXPECT_EQ(queue.watchdog, 4'000'000'000);
  EXPECT_THAT(queue.labels.at("y"), ElementsAre("no", "yes"));
  EXPECT_THAT(queue.buckets.at("seq"), ElementsAre(128, 512));
  EXPECT_EQ(Plan({}, s).default_deadline, kNever);
}

TEST(QueuePlanTest, EchoIsBatchedAtAnySize) {
  const auto queue = Plan({}, EchoSignature());
  EXPECT_TRUE(queue.join);
  EXPECT_EQ(queue.limits.max_rows, kDefaultMaxBatch);
  EXPECT_EQ(queue.limits.exact_executed, 0);
}

TEST(DeterministicSizeTest, AnyReportGivesASizeOrZero) {
  EXPECT_EQ(DeterministicSize(R"({"deterministic": {"checked": true, "size": 8}})"), 8);
  for (const char* report :
       {"", "{", "[]", "null", "{}", R"({"deterministic": 3})", R"({"deterministic": {}})",
        R"({"deterministic": {"checked": false, "size": 8}})",
        R"({"deterministic": {"checked": 1, "size": 8}})",
        R"({"deterministic": {"checked": true, "size": "8"}})",
        R"({"deterministic": {"checked": true, "size": -8}})"}) {
    EXPECT_EQ(DeterministicSize(report), 0) << report;
  }
}

}  // namespace
}  // namespace belfry::serving
