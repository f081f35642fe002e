#include "server/serving/warm_plan.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::serving {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr size_t kRoom = 1 << 20;

Dim Symbol(std::string name) { return {.kind = Dim::Kind::kSymbol, .text = std::move(name)}; }
Dim Fixed(int64_t size) { return {.kind = Dim::Kind::kFixed, .size = size}; }

// x: FP32 [batch, seq] -> y: FP32 [batch, 4]
scheduling::QueueOptions Sequences() {
  scheduling::QueueOptions queue;
  Signature& s = queue.signature;
  s.inputs.push_back({.name = "x", .dtype = DataType::kFp32,
                      .dims = {Symbol("batch"), Symbol("seq")}, .batch_axis = 0});
  s.outputs.push_back({.name = "y", .dtype = DataType::kFp32,
                       .dims = {Symbol("batch"), Fixed(4)}, .batch_axis = 0});
  s.symbols["batch"] = {1, 1024};
  s.symbols["seq"] = {1, 512};
  s.batchable = true;
  s.batch_symbol = "batch";
  queue.limits.max_rows = 32;
  return queue;
}

std::vector<std::string> Shapes(const WarmPlan& plan) {
  std::vector<std::string> out;
  for (const WarmStep& step : plan.steps) {
    out.emplace_back();
    for (const auto& [symbol, size] : step.shape) {
      out.back() += symbol.substr(0, 1) + std::to_string(size);
    }
  }
  return out;
}

TEST(WarmPlanTest, EveryBucketOnce) {
  auto queue = Sequences();
  queue.limits.buckets = {1, 8};
  queue.buckets["seq"] = {128, 512};
  const auto plan = PlanWarmup(queue, kRoom, kRoom);
  EXPECT_THAT(Shapes(plan), ElementsAre("b1s128", "b1s512", "b8s128"));
  EXPECT_EQ(plan.left_out, 0u);
}

TEST(WarmPlanTest, WithoutBucketsFromTheSmallestToTheLargestBatch) {
  auto queue = Sequences();
  queue.buckets["seq"] = {16};
  EXPECT_THAT(Shapes(PlanWarmup(queue, kRoom, kRoom)),
              ElementsAre("b1s16", "b2s16", "b8s16", "b32s16"));
  queue.signature.symbols["batch"].min = 4;
  queue.limits.min_executed = 4;
  queue.limits.max_rows = 6;
  EXPECT_THAT(Shapes(PlanWarmup(queue, kRoom, kRoom)), ElementsAre("b4s16", "b6s16"));
}

TEST(WarmPlanTest, DeterministicHasOneSize) {
  auto queue = Sequences();
  queue.limits.exact_executed = 16;
  queue.buckets["seq"] = {16};
  EXPECT_THAT(Shapes(PlanWarmup(queue, kRoom, kRoom)), ElementsAre("b16s16"));
}

TEST(WarmPlanTest, WhatNoSlotHoldsIsLeftOut) {
  auto queue = Sequences();
  queue.limits.buckets = {1, 64};
  queue.buckets["seq"] = {512};
  const auto plan = PlanWarmup(queue, 4096, kRoom);  // 64 x 512 floats are 128 KiB
  EXPECT_THAT(Shapes(plan), ElementsAre("b1s512"));
  EXPECT_EQ(plan.too_large, 1u);
  EXPECT_THAT(Shapes(PlanWarmup(queue, kRoom, 100)), ElementsAre("b1s512"));  // 64 x 4 floats
}

TEST(WarmPlanTest, SizesThatOverflowAreTooLarge) {
  auto queue = Sequences();
  queue.limits.buckets = {INT64_MAX};
  queue.buckets["seq"] = {INT64_MAX};
  const auto plan = PlanWarmup(queue, kRoom, kRoom);
  EXPECT_THAT(plan.steps, IsEmpty());
  EXPECT_EQ(plan.too_large, 1u);
}

TEST(WarmPlanTest, TheNumberIsBoundedAndKeepsBothEnds) {
  auto queue = Sequences();
  for (int i = 1; i <= 60; ++i) {
    queue.limits.buckets.push_back(i);
    queue.buckets["seq"].push_back(i);
  }
  const auto plan = PlanWarmup(queue, kRoom, kRoom);
  EXPECT_THAT(plan.steps, SizeIs(kMostWarmShapes));
  EXPECT_EQ(plan.left_out, 119 - kMostWarmShapes);
  EXPECT_EQ(Shapes(plan).front(), "b1s1");
  EXPECT_EQ(Shapes(plan).back(), "b1s60");
}

TEST(WarmPlanTest, ManySymbolsDoNotExplode) {
  auto queue = Sequences();
  for (char c = 'c'; c <= 'p'; ++c) queue.signature.symbols[std::string(1, c)] = {1, 1 << 20};
  const auto plan = PlanWarmup(queue, kRoom, kRoom);
  EXPECT_LE(plan.steps.size(), kMostWarmShapes);
}

TEST(WarmPlanTest, AModelWithoutSymbolsRunsOnce) {
  scheduling::QueueOptions queue;
  queue.signature.inputs.push_back({.name = "x", .dtype = DataType::kFp32, .dims = {Fixed(4)}});
  EXPECT_THAT(Shapes(PlanWarmup(queue, kRoom, kRoom)), ElementsAre(""));
}

TEST(WarmPlanTest, EchoNeedsNone) {
  scheduling::QueueOptions queue;
  queue.signature = EchoSignature();
  EXPECT_THAT(PlanWarmup(queue, kRoom, kRoom).steps, IsEmpty());
}

}  // namespace
}  // namespace belfry::serving
