#include "server/scheduling/model_queue.h"

#include <gtest/gtest.h>

#include "server/scheduling/answer.h"
#include "server/scheduling/test_support.h"

namespace belfry::scheduling {
namespace {

using testing::CollectingSink;
using testing::MakeJob;
using testing::RowOptions;

constexpr int64_t kRoomy = 1'000'000;

class ModelQueueTest : public ::testing::Test {
 protected:
  void Make(QueueOptions options) { queue_ = std::make_shared<ModelQueue>(std::move(options)); }

  std::shared_ptr<Job> Push(int64_t rows, uint32_t priority = 2, MonoNs deadline = kNever,
                            MonoNs now = 0) {
    auto job = MakeJob(queue_, {rows, 2}, 0, &sink_);
    job->priority = priority;
    job->deadline = deadline;
    job->accepted = now;
    const absl::Status s = queue_->Push(job, now);
    EXPECT_TRUE(s.ok()) << s;
    return job;
  }
  Taken Take(MonoNs now = 0, int card = 0, bool others = false, int64_t room = kRoomy) {
    return queue_->Take(card, others, now, [room](const Job&) { return room; });
  }

  CollectingSink sink_;
  std::shared_ptr<ModelQueue> queue_;
};

TEST_F(ModelQueueTest, TakesWhatIsThereUpToTheLimit) {
  Make(RowOptions(2, 8));
  Push(3);
  Push(3);
  Taken first = Take();
  EXPECT_EQ(first.rows, 6);
  EXPECT_EQ(first.parts.size(), 2u);
  EXPECT_TRUE(queue_->empty());
  EXPECT_TRUE(Take().parts.empty());
}

TEST_F(ModelQueueTest, CutsARequestThatIsLargerThanABatch) {
  Make(RowOptions(2, 8));
  auto big = Push(20);
  std::vector<std::pair<int64_t, int64_t>> cuts;
  while (!queue_->empty()) {
    Taken taken = Take();
    ASSERT_EQ(taken.parts.size(), 1u);
    cuts.emplace_back(taken.parts[0].first_row, taken.parts[0].rows);
  }
  EXPECT_EQ(cuts, (std::vector<std::pair<int64_t, int64_t>>{{0, 8}, {8, 8}, {16, 4}}));
}

TEST_F(ModelQueueTest, ServesPriorityThenDeadlineThenArrival) {
  Make(RowOptions(2, 1));
  auto plain = Push(1);
  auto later = Push(1, 2, 2000);
  auto sooner = Push(1, 2, 1000);
  auto urgent = Push(1, 1);
  std::vector<std::shared_ptr<Job>> order;
  while (!queue_->empty()) order.push_back(Take().parts[0].job);
  EXPECT_EQ(order, (std::vector<std::shared_ptr<Job>>{urgent, sooner, later, plain}));
}

TEST_F(ModelQueueTest, TheOldestThatStarvesGoesFirst) {
  Make(RowOptions(2, 1));
  auto patient = Push(1, 3, kNever, 0);
  const MonoNs late = kStarvationNs + 1;
  auto urgent = Push(1, 1, kNever, late);
  EXPECT_EQ(Take(late).parts[0].job, patient);
  EXPECT_EQ(Take(late).parts[0].job, urgent);
}

TEST_F(ModelQueueTest, JoinsOnlyEqualShapes) {
  Make(RowOptions(2, 8));
  auto a = MakeJob(queue_, {1, 2}, 0, &sink_);
  auto b = MakeJob(queue_, {1, 2}, 0, &sink_);
  auto c = MakeJob(queue_, {1, 2}, 0, &sink_);
  b->binding.shape_key = "other";
  for (const auto& job : {a, b, c}) ASSERT_TRUE(queue_->Push(job, 0).ok());
  Taken first = Take();
  ASSERT_EQ(first.parts.size(), 2u);
  EXPECT_EQ(first.parts[0].job, a);
  EXPECT_EQ(first.parts[1].job, c);
  EXPECT_EQ(Take().parts[0].job, b);
}

TEST_F(ModelQueueTest, RunsWholeRequestsOneByOneWhereRowsDepend) {
  QueueOptions options = RowOptions(2, 4);
  options.signature.batchable = false;
  options.join = false;
  Make(std::move(options));
  Push(9);  // more than max_rows: may not be cut
  Push(1);
  Taken first = Take();
  ASSERT_EQ(first.parts.size(), 1u);
  EXPECT_EQ(first.rows, 9);
  EXPECT_EQ(Take().rows, 1);
}

TEST_F(ModelQueueTest, RefusesWhenFullNamingTheLimit) {
  QueueOptions options = RowOptions(2, 8);
  options.max_queue = 2;
  Make(std::move(options));
  Push(1);
  Push(1);
  const absl::Status full = queue_->Push(MakeJob(queue_, {1, 2}, 0, &sink_), 0);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(full.message().find("2 requests"), absl::string_view::npos) << full;
  Take();
  EXPECT_TRUE(queue_->Push(MakeJob(queue_, {1, 2}, 0, &sink_), 0).ok());
}

TEST_F(ModelQueueTest, AClosedQueueRefusesButKeepsWhatWaits) {
  Make(RowOptions(2, 8));
  auto job = Push(1);
  queue_->Close(absl::UnavailableError("gone"));
  EXPECT_EQ(queue_->Push(MakeJob(queue_, {1, 2}, 0, &sink_), 0).message(), "gone");
  EXPECT_EQ(Take().parts.size(), 1u);
  EXPECT_FALSE(queue_->WaitIdle(absl::ZeroDuration()));
  FinishError(*job, absl::CancelledError(""), 1);
  EXPECT_TRUE(queue_->WaitIdle(absl::Seconds(1)));
}

TEST_F(ModelQueueTest, ExpiredRequestsLeaveAtOnce) {
  Make(RowOptions(2, 8));
  auto expires = Push(1, 2, 100);
  auto stays = Push(1);
  EXPECT_EQ(queue_->NextEvent(0), 100);
  EXPECT_TRUE(queue_->RemoveExpired(99).empty());
  EXPECT_EQ(queue_->RemoveExpired(100), std::vector<std::shared_ptr<Job>>{expires});
  EXPECT_EQ(queue_->NextEvent(100), kNever);
  Taken taken = Take(100);
  ASSERT_EQ(taken.parts.size(), 1u);
  EXPECT_EQ(taken.parts[0].job, stays);
}

TEST_F(ModelQueueTest, WhatHasExpiredIsNotTaken) {
  Make(RowOptions(2, 8));
  Push(1, 2, 100);
  auto stays = Push(1);
  Taken taken = Take(100);
  ASSERT_EQ(taken.parts.size(), 1u);
  EXPECT_EQ(taken.parts[0].job, stays);
}

TEST_F(ModelQueueTest, ADelayedBatchWaitsForItsOldestOrUntilItIsFull) {
  QueueOptions options = RowOptions(2, 3);
  options.limits.delay = 1000;
  Make(std::move(options));
  Push(1, 2, kNever, 0);
  EXPECT_FALSE(queue_->View(0, false, 999).has_value());
  EXPECT_TRUE(Take(999).parts.empty());
  EXPECT_EQ(queue_->NextEvent(0), 1000);
  EXPECT_EQ(Take(1000).rows, 1);
  Push(1, 2, kNever, 5000);
  Push(2, 2, kNever, 5001);
  EXPECT_EQ(Take(5001).rows, 3);
}

TEST_F(ModelQueueTest, LostRowsComeBackInFrontAndAvoidTheirCard) {
  Make(RowOptions(2, 1));
  Push(1);
  Taken lost = Take(0, /*card=*/0);
  auto newcomer = Push(1);
  auto lost_job = lost.parts[0].job;
  lost.parts[0].retries = 1;
  queue_->PushBack(std::move(lost.parts), /*lost_on_card=*/0, /*alone=*/false, 1);
  // Card 0 leaves the row to the others as long as there are any.
  EXPECT_EQ(Take(1, /*card=*/0, /*others=*/true).parts[0].job, newcomer);
  EXPECT_TRUE(Take(1, /*card=*/0, /*others=*/true).parts.empty());
  Taken again = Take(1, /*card=*/1, /*others=*/true);
  ASSERT_EQ(again.parts.size(), 1u);
  EXPECT_EQ(again.parts[0].job, lost_job);
  EXPECT_EQ(again.parts[0].retries, 1);
}

TEST_F(ModelQueueTest, ALostRowDoesNotKeepItsCardFromOtherGroups) {
  Make(RowOptions(2, 4));
  Push(1, 1);
  Taken lost = Take(0, /*card=*/0);
  queue_->PushBack(std::move(lost.parts), /*lost_on_card=*/0, /*alone=*/false, 1);
  auto other = MakeJob(queue_, {1, 2}, 0, &sink_);
  other->binding.shape_key = "other";
  ASSERT_TRUE(queue_->Push(other, 1).ok());
  EXPECT_TRUE(queue_->View(/*card=*/0, /*other_cards=*/true, 1).has_value());
  Taken taken = Take(1, /*card=*/0, /*others=*/true);
  ASSERT_EQ(taken.parts.size(), 1u);
  EXPECT_EQ(taken.parts[0].job, other);
  EXPECT_FALSE(queue_->View(/*card=*/0, /*other_cards=*/true, 1).has_value());
}

TEST_F(ModelQueueTest, ALargeRequestThatIsBeingServedDoesNotStarve) {
  Make(RowOptions(2, 8));
  auto large = Push(100, 3, kNever, 0);
  const MonoNs late = kStarvationNs + 1;
  EXPECT_EQ(Take(late).parts[0].job, large);  // has waited too long
  auto urgent = Push(1, 1, kNever, late);
  EXPECT_EQ(Take(late + 1).parts[0].job, urgent);
}

TEST_F(ModelQueueTest, AnsweredJobsDoNotComeBack) {
  Make(RowOptions(2, 4));
  auto job = Push(1);
  Taken taken = Take();
  FinishError(*job, absl::CancelledError(""), 1);
  queue_->PushBack(std::move(taken.parts), 0, false, 1);
  EXPECT_TRUE(queue_->empty());
}

TEST_F(ModelQueueTest, GaugesReturnToZero) {
  Make(RowOptions(2, 4));
  auto a = Push(1, 2, kNever, 10);
  auto b = Push(6, 2, kNever, 20);
  telemetry::ModelMetrics& metrics = queue_->metrics();
  EXPECT_EQ(metrics.queue_depth.load(), 2);
  EXPECT_EQ(metrics.in_flight.load(), 2);
  EXPECT_EQ(metrics.oldest_enqueued_ns.load(), 10);
  Take(/*now=*/30);
  EXPECT_EQ(metrics.oldest_enqueued_ns.load(), 30);  // rows of it have just been taken
  FinishError(*a, absl::CancelledError(""), 30);
  FinishError(*b, absl::CancelledError(""), 30);
  EXPECT_EQ(metrics.queue_depth.load(), 0);
  EXPECT_EQ(metrics.in_flight.load(), 0);
  EXPECT_EQ(metrics.oldest_enqueued_ns.load(), 0);
  EXPECT_EQ(metrics.requests[1].Value(), 2u);  // CANCELLED
}

TEST_F(ModelQueueTest, SharesStartWhereTheOthersStand) {
  Make(RowOptions(2, 4));
  EXPECT_EQ(queue_->Charge(100), 0);
  EXPECT_EQ(queue_->consumed(), 100);
  queue_->Settle(0, 8);
  EXPECT_EQ(queue_->consumed(), 108);
  // The next batch is charged in advance with the average of those before.
  const double estimate = queue_->Charge(0);
  EXPECT_EQ(estimate, 1);
  EXPECT_EQ(queue_->consumed(), 109);
}

}  // namespace
}  // namespace belfry::scheduling
