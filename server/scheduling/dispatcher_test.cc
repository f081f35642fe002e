// The dispatcher against cards that do exactly what a test says (the real ones
// are driven in tests/integration).
#include "server/scheduling/dispatcher.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <thread>

#include "server/scheduling/test_support.h"

namespace belfry::scheduling {
namespace {

using cards::BatchOutcome;
using cards::BatchResult;
using cards::Slot;
using testing::CollectingSink;
using testing::MakeJob;
using testing::RowOptions;

// A card without a process. Submitted batches wait until the test completes
// them; the answer to each element is the element plus one.
class FakeCard final : public cards::Card {
 public:
  FakeCard(int index, cards::CardListener* listener)
      : index_(index), name_("fake:" + std::to_string(index)), listener_(listener) {
    for (auto& arena : in_) arena.resize(1 << 16);
    for (auto& arena : out_) arena.resize(1 << 16);
  }

  int index() const override { return index_; }
  const std::string& name() const override { return name_; }
  const std::string& driver() const override { return driver_; }
  cards::CardState state() const override { return state_.load(); }
  Slot TryAcquireSlot() override {
    if (state_.load() != cards::CardState::kReady) return Slot();
    for (uint32_t i = 0; i < channel::kSlots; ++i) {
      if (!taken_[i].exchange(true)) return MakeSlot(std::make_shared<int>(), this, i);
    }
    return Slot();
  }
  int slots_in_use() const override { return taken_[0].load() + taken_[1].load(); }
  size_t input_capacity() const override { return 1 << 16; }
  size_t output_capacity() const override { return 1 << 16; }
  void Submit(Slot slot, const cards::BatchCall& call) override {
    absl::MutexLock lock(&mutex_);
    running_.push_back({std::move(slot), {call.inputs.begin(), call.inputs.end()}, call.tag});
  }
  void RequestTurn() override { ++turns_; }
  absl::Status Load(const cards::ExecutableSpec&) override { return absl::OkStatus(); }
  absl::Status Warm(cards::ExecutableId, std::span<const cards::WarmShape>) override {
    return absl::OkStatus();
  }
  absl::Status Unload(cards::ExecutableId) override { return absl::OkStatus(); }
  cards::CardInfo Info() const override { return {}; }

  void SetState(cards::CardState state) { state_ = state; }
  int turns() const { return turns_; }
  size_t running() const {
    absl::MutexLock lock(&mutex_);
    return running_.size();
  }
  // Rows of the batch that waits longest.
  int64_t rows() const {
    absl::MutexLock lock(&mutex_);
    return running_.empty() ? 0 : running_.front().inputs[0].dims[0];
  }
  // Completes the batch that waits longest; false if there is none.
  bool Complete(BatchOutcome outcome = BatchOutcome::kOk, bool started = true,
                bool suspect = false) {
    Running r;
    {
      absl::MutexLock lock(&mutex_);
      if (running_.empty()) return false;
      r = std::move(running_.front());
      running_.pop_front();
    }
    BatchResult result;
    result.outcome = outcome;
    result.started = started;
    result.suspect = suspect;
    result.start_ns = started ? 1000 : 0;
    result.end_ns = 2000;
    if (outcome == BatchOutcome::kOk) {
      result.outputs = r.inputs;
      for (const auto& t : r.inputs) {
        for (size_t i = 0; i < t.bytes / sizeof(float); ++i) {
          float v;
          std::memcpy(&v, r.slot.input().data() + t.offset + i * sizeof v, sizeof v);
          v += 1;
          std::memcpy(const_cast<uint8_t*>(r.slot.output().data()) + t.offset + i * sizeof v, &v,
                      sizeof v);
        }
      }
    } else {
      result.status = absl::UnavailableError("the card said no");
    }
    listener_->OnBatchDone(*this, std::move(r.slot), r.tag, std::move(result));
    return true;
  }

 protected:
  void ReleaseSlot(const std::shared_ptr<void>&, uint32_t index) override {
    taken_[index].store(false);
  }
  std::span<uint8_t> SlotInput(const std::shared_ptr<void>&, uint32_t index) const override {
    return const_cast<FakeCard*>(this)->in_[index];
  }
  std::span<const uint8_t> SlotOutput(const std::shared_ptr<void>&,
                                      uint32_t index) const override {
    return out_[index];
  }

 private:
  struct Running {
    Slot slot;
    std::vector<channel::TensorDesc> inputs;
    void* tag = nullptr;
  };
  const int index_;
  const std::string name_;
  const std::string driver_ = "fake";
  cards::CardListener* const listener_;
  std::atomic<cards::CardState> state_{cards::CardState::kReady};
  std::atomic<bool> taken_[channel::kSlots] = {};
  std::vector<uint8_t> in_[channel::kSlots], out_[channel::kSlots];
  mutable absl::Mutex mutex_;
  std::deque<Running> running_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> turns_{0};
};

class Crashes final : public ModelListener {
 public:
  void OnCardCrashed(const std::shared_ptr<ModelQueue>&, const std::string&,
                     const absl::Status&) override {
    ++crashed;
  }
  void OnResidencyLost(cards::ExecutableId, const std::string&, const absl::Status&) override {
    ++lost;
  }
  std::atomic<int> crashed{0}, lost{0};
};

class DispatcherTest : public ::testing::Test {
 protected:
  void Start(int cards, QueueOptions options = RowOptions(2, 8)) {
    for (int i = 0; i < cards; ++i) {
      cards_.push_back(std::make_unique<FakeCard>(i, &dispatcher_));
    }
    std::vector<cards::Card*> raw;
    for (const auto& card : cards_) raw.push_back(card.get());
    dispatcher_.SetCards(raw);
    dispatcher_.SetModelListener(&crashes_);
    queue_ = AddQueue(std::move(options));
  }
  std::shared_ptr<ModelQueue> AddQueue(QueueOptions options) {
    auto queue = std::make_shared<ModelQueue>(std::move(options));
    for (const auto& card : cards_) dispatcher_.Attach(queue, card.get());
    return queue;
  }
  std::shared_ptr<Job> Submit(CollectingSink* sink, int64_t rows = 1, float first = 1,
                              MonoNs deadline = kNever) {
    auto job = MakeJob(queue_, {rows, 2}, first, sink);
    job->deadline = deadline;
    const absl::Status s = dispatcher_.Submit(job);
    EXPECT_TRUE(s.ok()) << s;
    return job;
  }
  static MonoNs In(MonoNs ms) { return Clock::Real().Now() + ms * 1'000'000; }

  Crashes crashes_;
  std::vector<std::unique_ptr<FakeCard>> cards_;
  std::shared_ptr<ModelQueue> queue_;
  CollectingSink sink_;
  Dispatcher dispatcher_;  // last: its timer thread uses nothing of the above after it is gone
};

TEST_F(DispatcherTest, AnIdleCardTakesARequestAtOnce) {
  Start(1);
  Submit(&sink_, 1, 5);
  EXPECT_EQ(cards_[0]->running(), 1u);
  cards_[0]->Complete();
  EXPECT_EQ(sink_.floats(0), (std::vector<float>{6, 7}));
}

TEST_F(DispatcherTest, WhatArrivesWhileBothSlotsAreTakenRidesInOneBatch) {
  Start(1);
  for (int i = 0; i < 7; ++i) Submit(&sink_);
  EXPECT_EQ(cards_[0]->running(), 2u);
  cards_[0]->Complete();
  cards_[0]->Complete();
  EXPECT_EQ(cards_[0]->rows(), 5);
  cards_[0]->Complete();
  EXPECT_EQ(sink_.count(), 7u);
}

TEST_F(DispatcherTest, SpreadsOverIdleCardsBeforeQueueingOnBusyOnes) {
  Start(3);
  for (int i = 0; i < 3; ++i) Submit(&sink_);
  for (const auto& card : cards_) EXPECT_EQ(card->running(), 1u) << card->name();
}

TEST_F(DispatcherTest, SplitsAnOversizeRequestOverCards) {
  Start(2);
  Submit(&sink_, 20, 0);
  EXPECT_GT(cards_[0]->running(), 0u);
  EXPECT_GT(cards_[1]->running(), 0u);
  while (cards_[0]->Complete() || cards_[1]->Complete()) {
  }
  ASSERT_EQ(sink_.count(), 1u);
  const std::vector<float> got = sink_.floats(0);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<float>(i) + 1);
  EXPECT_EQ(got.size(), 40u);
}

TEST_F(DispatcherTest, AnExpiredRequestNeverReachesACard) {
  Start(1);
  CollectingSink busy;
  Submit(&busy);
  Submit(&busy);
  Submit(&sink_, 1, 1, In(30));
  ASSERT_TRUE(sink_.WaitFor(1));
  EXPECT_EQ(sink_.status().code(), absl::StatusCode::kDeadlineExceeded);
  cards_[0]->Complete();
  cards_[0]->Complete();
  EXPECT_EQ(cards_[0]->running(), 0u);
  EXPECT_EQ(queue_->metrics().expired_before_execution.Value(), 1u);
  EXPECT_EQ(queue_->metrics().executed_rows.Value(), 2u);
}

TEST_F(DispatcherTest, ADeadlineInThePastIsRefused) {
  Start(1);
  auto job = MakeJob(queue_, {1, 2}, 0, &sink_);
  job->deadline = In(-1);
  EXPECT_EQ(dispatcher_.Submit(job).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(sink_.count(), 0u);
}

TEST_F(DispatcherTest, ACancelledRequestLeavesTheQueue) {
  Start(1);
  CollectingSink busy;
  Submit(&busy);
  Submit(&busy);
  auto job = Submit(&sink_);
  dispatcher_.Cancel(job);
  EXPECT_EQ(sink_.status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(queue_->empty());
  EXPECT_EQ(queue_->metrics().cancelled_before_execution.Value(), 1u);
  dispatcher_.Cancel(job);
  EXPECT_EQ(sink_.count(), 1u);
}

TEST_F(DispatcherTest, ACancellationAtTheDeadlineCountsAsExpired) {
  Start(1);
  CollectingSink busy;
  Submit(&busy);
  Submit(&busy);
  auto job = Submit(&sink_, 1, 1, In(10'000));
  job->accepted = job->deadline - 100'000'000'000;  // nearly all of it is over
  dispatcher_.Cancel(job);
  EXPECT_EQ(sink_.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(queue_->metrics().expired_before_execution.Value(), 1u);
  EXPECT_EQ(queue_->metrics().cancelled_before_execution.Value(), 0u);
}

TEST_F(DispatcherTest, ARequestCancelledOnACardIsAnsweredOnce) {
  Start(1);
  auto job = Submit(&sink_);
  dispatcher_.Cancel(job);
  cards_[0]->Complete();
  EXPECT_EQ(sink_.count(), 1u);
  EXPECT_EQ(sink_.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(queue_->metrics().cancelled_before_execution.Value(), 0u);
}

TEST_F(DispatcherTest, RowsOfALostCardRunOnAnotherOnce) {
  Start(2);
  Submit(&sink_, 1, 5);
  FakeCard& first = cards_[0]->running() == 1 ? *cards_[0] : *cards_[1];
  FakeCard& second = &first == cards_[0].get() ? *cards_[1] : *cards_[0];
  first.Complete(BatchOutcome::kCardLost, /*started=*/true, /*suspect=*/true);
  EXPECT_EQ(crashes_.crashed, 1);
  EXPECT_EQ(sink_.count(), 0u);
  ASSERT_EQ(second.running(), 1u);
  EXPECT_EQ(first.running(), 0u);
  second.Complete();
  EXPECT_EQ(sink_.floats(0), (std::vector<float>{6, 7}));
}

TEST_F(DispatcherTest, ARequestWhoseTimeRanOutOnALostCardIsNotTriedAgain) {
  Start(2);
  Submit(&sink_, 1, 1, In(5));
  FakeCard& first = cards_[0]->running() == 1 ? *cards_[0] : *cards_[1];
  FakeCard& second = &first == cards_[0].get() ? *cards_[1] : *cards_[0];
  const MonoNs over = In(6);
  while (Clock::Real().Now() < over) std::this_thread::yield();
  first.Complete(BatchOutcome::kCardLost, /*started=*/true);
  EXPECT_EQ(sink_.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(second.running(), 0u);
}

TEST_F(DispatcherTest, ARequestThatLosesTwoCardsIsAnswered) {
  Start(2);
  Submit(&sink_);
  for (int i = 0; i < 2; ++i) {
    FakeCard& card = cards_[0]->running() == 1 ? *cards_[0] : *cards_[1];
    card.Complete(BatchOutcome::kCardLost, true, true);
  }
  EXPECT_EQ(sink_.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(crashes_.crashed, 2);
}

TEST_F(DispatcherTest, ABatchThatOnlyWaitedLosesNothing) {
  Start(1);
  Submit(&sink_);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(cards_[0]->Complete(BatchOutcome::kCardLost, /*started=*/false));
  }
  EXPECT_EQ(sink_.count(), 0u);
  cards_[0]->Complete();
  EXPECT_TRUE(sink_.status().ok());
  EXPECT_EQ(crashes_.crashed, 0);
  EXPECT_LT(queue_->consumed(), 1e-3) << "charged for time that it did not run";
}

TEST_F(DispatcherTest, ALargeRequestIsToldToEveryCard) {
  Start(2);
  auto job = MakeJob(queue_, {1, 2}, 0, &sink_);
  job->request.inputs[0].payload.size = 1 << 20;  // only looked at
  ASSERT_TRUE(dispatcher_.Submit(job).ok());
  EXPECT_EQ(cards_[0]->turns(), 1);
  EXPECT_EQ(cards_[1]->turns(), 1);
  // The other dies before its turn: this one is told again.
  cards_[1]->SetState(cards::CardState::kRestarting);
  dispatcher_.OnCardLost(*cards_[1]);
  EXPECT_EQ(cards_[0]->turns(), 2);
  dispatcher_.Cancel(job);
}

TEST_F(DispatcherTest, ARequestOfTwoBatchesRunsOnTwoIdleCards) {
  Start(2);
  Submit(&sink_, 16);
  EXPECT_EQ(cards_[0]->running(), 1u);
  EXPECT_EQ(cards_[1]->running(), 1u);
}

TEST_F(DispatcherTest, OneBadRequestDoesNotSpoilItsNeighbours) {
  Start(1);
  CollectingSink busy, good, bad;
  Submit(&busy);
  Submit(&busy);
  Submit(&good, 1, 5);
  Submit(&bad, 1, 9);
  cards_[0]->Complete();
  cards_[0]->Complete();
  ASSERT_EQ(cards_[0]->rows(), 2);
  cards_[0]->Complete(BatchOutcome::kModelError);
  // Each runs by itself now; the second fails again.
  ASSERT_EQ(cards_[0]->running(), 2u);
  cards_[0]->Complete();
  cards_[0]->Complete(BatchOutcome::kModelError);
  EXPECT_EQ(good.floats(0), (std::vector<float>{6, 7}));
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(bad.status().message().find("the card said no"), absl::string_view::npos);
}

TEST_F(DispatcherTest, ACardWithoutTheExecutableIsDetached) {
  Start(2);
  Submit(&sink_);
  FakeCard& first = cards_[0]->running() == 1 ? *cards_[0] : *cards_[1];
  FakeCard& second = &first == cards_[0].get() ? *cards_[1] : *cards_[0];
  first.Complete(BatchOutcome::kNoExecutable);
  EXPECT_EQ(crashes_.lost, 1);
  second.Complete();
  EXPECT_TRUE(sink_.status().ok());
  CollectingSink later;
  for (int i = 0; i < 4; ++i) Submit(&later);
  EXPECT_EQ(first.running(), 0u);
}

TEST_F(DispatcherTest, WhatWaitsIsServedWhenACardComesBack) {
  Start(1);
  cards_[0]->SetState(cards::CardState::kRestarting);
  Submit(&sink_);
  EXPECT_EQ(cards_[0]->running(), 0u);
  cards_[0]->SetState(cards::CardState::kReady);
  dispatcher_.OnTurn(*cards_[0]);
  cards_[0]->Complete();
  EXPECT_TRUE(sink_.status().ok());
}

TEST_F(DispatcherTest, NothingIsLeftInAQueueThatNoCardServes) {
  Start(1);
  Submit(&sink_);
  dispatcher_.DetachAll(queue_);
  cards_[0]->Complete(BatchOutcome::kCardLost, true, true);
  EXPECT_EQ(sink_.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(DispatcherTest, LargePayloadsAreLeftToTheCardsThread) {
  QueueOptions options = RowOptions(2, 8);
  Start(1, std::move(options));
  auto job = MakeJob(queue_, {1, 2}, 0, &sink_);
  job->request.inputs[0].payload.size = 1 << 20;  // only looked at
  ASSERT_TRUE(dispatcher_.Submit(job).ok());
  EXPECT_EQ(cards_[0]->turns(), 1);
  EXPECT_EQ(cards_[0]->running(), 0u);
  dispatcher_.Cancel(job);
}

TEST_F(DispatcherTest, SharesACardFairlyBetweenModels) {
  Start(1);
  auto other = AddQueue(RowOptions(2, 8));
  CollectingSink a, b;
  // The first model floods; the second has one request at a time.
  for (int i = 0; i < 200; ++i) Submit(&a);
  int served_b = 0;
  for (int i = 0; i < 10; ++i) {
    auto job = MakeJob(other, {1, 2}, 0, &b);
    ASSERT_TRUE(dispatcher_.Submit(job).ok());
    for (int batches = 0; b.count() == static_cast<size_t>(served_b) && batches < 8; ++batches) {
      cards_[0]->Complete();
    }
    ASSERT_EQ(b.count(), static_cast<size_t>(++served_b)) << "passed over for eight batches";
  }
  while (cards_[0]->Complete()) {
  }
  EXPECT_EQ(a.count(), 200u);
}

// Many threads submit and cancel while others complete; a few batches are lost.
// Every accepted job is answered exactly once and nothing is left behind.
TEST_F(DispatcherTest, EveryJobIsAnsweredOnceUnderConcurrency) {
  Start(2);
  constexpr int kThreads = 4, kJobs = 2000;
  std::vector<std::unique_ptr<CollectingSink>> sinks;
  for (int i = 0; i < kThreads * kJobs; ++i) sinks.push_back(std::make_unique<CollectingSink>());
  std::atomic<bool> stop{false};
  std::vector<std::thread> completers, submitters;
  for (int c = 0; c < 2; ++c) {
    completers.emplace_back([&, c] {
      for (int n = 0; !stop; ++n) {
        const bool lost = n % 97 == 96;
        if (!cards_[c]->Complete(lost ? BatchOutcome::kCardLost : BatchOutcome::kOk, false)) {
          std::this_thread::yield();
        }
      }
    });
  }
  for (int t = 0; t < kThreads; ++t) {
    submitters.emplace_back([&, t] {
      for (int i = 0; i < kJobs; ++i) {
        auto job = MakeJob(queue_, {1 + i % 20, 2}, static_cast<float>(i), sinks[t * kJobs + i].get());
        while (true) {
          const absl::Status s = dispatcher_.Submit(job);
          if (s.ok()) break;
          ASSERT_EQ(s.code(), absl::StatusCode::kResourceExhausted) << s;
          std::this_thread::yield();
        }
        if (i % 13 == 0) dispatcher_.Cancel(job);
      }
    });
  }
  for (auto& t : submitters) t.join();
  EXPECT_TRUE(queue_->WaitIdle(absl::Seconds(60)));
  stop = true;
  for (auto& t : completers) t.join();
  for (size_t i = 0; i < sinks.size(); ++i) {
    ASSERT_EQ(sinks[i]->count(), 1u) << "job " << i;
    if (sinks[i]->status().ok()) {
      ASSERT_EQ(sinks[i]->floats(0)[0], static_cast<float>(i % kJobs) + 1) << "another job's row";
    }
  }
  EXPECT_EQ(queue_->metrics().in_flight.load(), 0);
  EXPECT_EQ(queue_->metrics().queue_depth.load(), 0);
}

}  // namespace
}  // namespace belfry::scheduling
