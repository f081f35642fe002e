// Batches on real card processes: answers, errors, lost cards.
#include <sys/syscall.h>

#include <thread>

#include "device/channel/mapping.h"
#include "server/cards/card_harness.h"

namespace belfry::cards {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

using CardBatchTest = CardsTest;

TEST_F(CardBatchTest, EchoFromManyThreadsOnManyCards) {
  options_.groups = {{"fault", 2}};
  StartReady();
  for (Card* card : pool_->cards()) ASSERT_TRUE(card->Load(Echo()).ok());
  constexpr int kThreads = 4, kBatches = 250;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Card& my_card = card(t % 2);
      for (int i = 0; i < kBatches; ++i) {
        const int rows = 1 + (i * 7 + t) % 50;
        const float first = static_cast<float>(t * 100000 + i);
        const auto ticket = Run(my_card, 1, kNoHurry, rows, first);
        bool good = ticket->completions == 1 && ticket->result.outcome == BatchOutcome::kOk &&
                    ticket->result.outputs.size() == 1 &&
                    ticket->output.size() == static_cast<size_t>(rows) * 4 &&
                    ticket->result.end_ns >= ticket->result.start_ns &&
                    ticket->result.start_ns > 0;
        for (size_t k = 0; good && k < ticket->output.size(); ++k) {
          good = ticket->output[k] == first + static_cast<float>(k);
        }
        if (!good) wrong.fetch_add(1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(card(0).Info().batches + card(1).Info().batches, uint64_t{kThreads * kBatches});
  EXPECT_GT(card(0).Info().busy_seconds, 0);
  EXPECT_EQ(card(0).slots_in_use(), 0);
}

TEST_F(CardBatchTest, SlotsAreExclusive) {
  StartReady();
  Slot a = card().TryAcquireSlot();
  Slot b = card().TryAcquireSlot();
  EXPECT_TRUE(a);
  EXPECT_TRUE(b);
  EXPECT_FALSE(card().TryAcquireSlot());
  EXPECT_EQ(card().slots_in_use(), 2);
  EXPECT_NE(a.input().data(), b.input().data());
  EXPECT_EQ(a.input().size(), card().input_capacity());
  EXPECT_EQ(a.output().size(), card().output_capacity());
  a = std::move(b);
  EXPECT_EQ(card().slots_in_use(), 1);
  a = Slot();
  EXPECT_EQ(card().slots_in_use(), 0);
}

TEST_F(CardBatchTest, RequestTurnIsServedByTheCardsThread) {
  StartReady();
  ASSERT_TRUE(book_.Await([&] { return book_.turns(0) > 0; }));
  const int before = book_.turns(0);
  card().RequestTurn();
  EXPECT_TRUE(book_.Await([&] { return book_.turns(0) > before; }));
}

TEST_F(CardBatchTest, UnknownExecutable) {
  StartReady();
  const int pid = card().Info().pid;
  EXPECT_EQ(Run(card(), 99)->result.outcome, BatchOutcome::kNoExecutable);
  EXPECT_EQ(card().Info().pid, pid);
}

TEST_F(CardBatchTest, ModelErrorsLeaveTheCardAlone) {
  StartReady();
  ASSERT_TRUE(card().Load(Artifact(1, "error", {{"run", "error"}})).ok());
  ASSERT_TRUE(card().Load(Artifact(2, "large", {{"run", "too_large"}})).ok());
  const int pid = card().Info().pid;
  const auto error = Run(card(), 1);
  EXPECT_EQ(error->result.outcome, BatchOutcome::kModelError);
  EXPECT_FALSE(error->result.status.ok());
  EXPECT_EQ(Run(card(), 2)->result.outcome, BatchOutcome::kOutputTooLarge);
  EXPECT_EQ(card().Info().pid, pid);
  EXPECT_EQ(card().Info().restarts, 0);
}

TEST_F(CardBatchTest, TooManyInputsFailWithoutTheCard) {
  StartReady();
  ASSERT_TRUE(card().Load(Echo()).ok());
  const std::vector<channel::TensorDesc> inputs(channel::kMaxTensors + 1);
  Ticket ticket;
  BatchCall call;
  call.executable = 1;
  call.inputs = inputs;
  call.tag = &ticket;
  card().Submit(AwaitSlot(card()), call);
  ASSERT_TRUE(ticket.done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(ticket.result.outcome, BatchOutcome::kModelError);
  ExpectEcho(card(), 1);
}

// Every submitted batch completes exactly once, whatever dies under it.
TEST_F(CardBatchTest, KillUnderLoad) {
  options_.groups = {{"fault", 2}};
  StartReady();
  for (Card* card : pool_->cards()) {
    ASSERT_TRUE(card->Load(Echo()).ok());
    ASSERT_TRUE(card->Load(Artifact(2, "slow", {{"run_ms", 2}, {"async", true}})).ok());
  }
  std::atomic<bool> stop{false};
  std::atomic<int> ok{0}, lost{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      while (!stop.load()) {
        const auto ticket = Run(card(t % 2), 1 + t / 2, kNoHurry, 3, static_cast<float>(t));
        if (ticket->completions != 1) wrong.fetch_add(1);
        if (ticket->result.outcome == BatchOutcome::kCardLost) {
          lost.fetch_add(1);
        } else if (ticket->result.outcome == BatchOutcome::kOk && ticket->output.size() == 12 &&
                   ticket->output[11] == static_cast<float>(t) + 11) {
          ok.fetch_add(1);
        } else {
          wrong.fetch_add(1);
        }
      }
    });
  }
  for (int round = 1; round <= 12; ++round) {
    Card& victim = card(round % 2);
    const int before = ok.load();
    EXPECT_TRUE(book_.Await([&] { return ok.load() > before + 10; }));
    const int restarts = victim.Info().restarts;
    kill(victim.Info().pid, SIGKILL);
    EXPECT_TRUE(AwaitRestarts(victim, restarts + 1)) << victim.Info().last_error;
  }
  stop.store(true);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GT(lost.load(), 0);
  for (Card* card : pool_->cards()) {
    EXPECT_EQ(card->Info().restarts, 6);
    EXPECT_EQ(book_.lost(card->index()), 6);
    EXPECT_THAT(card->Info().last_error, HasSubstr("killed by signal 9"));
    EXPECT_THAT(card->Info().residents, ::testing::ElementsAre("echo/1", "slow/1"));
    ExpectEcho(*card, 1);
    ExpectEcho(*card, 2);
  }
}

TEST_F(CardBatchTest, OnlyTheRunningBatchIsBlamed) {
  StartReady();
  ASSERT_TRUE(card().Load(Artifact(1, "crash", {{"run", "segv"}, {"run_gate", Path("go")}})).ok());
  Ticket first, second;
  Submit(card(), AwaitSlot(card()), &first, 1);
  Submit(card(), AwaitSlot(card()), &second, 1);
  Touch("go");
  ASSERT_TRUE(first.done.WaitForNotificationWithTimeout(kPatience));
  ASSERT_TRUE(second.done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(first.result.outcome, BatchOutcome::kCardLost);
  EXPECT_EQ(second.result.outcome, BatchOutcome::kCardLost);
  EXPECT_THAT(first.result.status.message(), HasSubstr("signal 11"));
  EXPECT_TRUE(first.result.started);
  EXPECT_TRUE(first.result.suspect);
  EXPECT_FALSE(second.result.started);
  EXPECT_FALSE(second.result.suspect);
}

TEST_F(CardBatchTest, NobodyIsBlamedForAKillFromOutside) {
  StartReady();
  ASSERT_TRUE(card().Load(Artifact(1, "waits", {{"run_gate", Path("go")}})).ok());
  Ticket ticket;
  Submit(card(), AwaitSlot(card()), &ticket, 1);
  kill(card().Info().pid, SIGKILL);
  ASSERT_TRUE(ticket.done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(ticket.result.outcome, BatchOutcome::kCardLost);
  EXPECT_TRUE(ticket.result.started);
  EXPECT_FALSE(ticket.result.suspect);
}

TEST_F(CardBatchTest, SlotSubmittedAfterTheCardDiedCompletesOnce) {
  StartReady();
  ASSERT_TRUE(card().Load(Echo()).ok());
  Slot slot = AwaitSlot(card());
  kill(card().Info().pid, SIGKILL);
  ASSERT_TRUE(AwaitRestarts(card(), 1));
  Ticket ticket;
  Submit(card(), std::move(slot), &ticket, 1);  // writes into the old memory, too
  ASSERT_TRUE(ticket.done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(ticket.result.outcome, BatchOutcome::kCardLost);
  EXPECT_FALSE(ticket.result.status.ok());
  ExpectEcho(card(), 1);
  EXPECT_EQ(ticket.completions, 1);
}

TEST_F(CardBatchTest, AnswersOutliveTheirProcess) {
  StartReady();
  ASSERT_TRUE(card().Load(Echo()).ok());
  Ticket ticket;
  ticket.keep_slot = true;
  Submit(card(), AwaitSlot(card()), &ticket, 1, 1, 5);
  ASSERT_TRUE(ticket.done.WaitForNotificationWithTimeout(kPatience));
  kill(card().Info().pid, SIGKILL);
  ASSERT_TRUE(AwaitRestarts(card(), 1));
  ExpectEcho(card(), 1);
  float value;
  std::memcpy(&value, ticket.slot.output().data() + ticket.result.outputs[0].offset, sizeof value);
  EXPECT_EQ(value, 5);
  // The kept slot belongs to the dead process; the new one has both of its own.
  Slot a = AwaitSlot(card()), b = AwaitSlot(card());
  EXPECT_TRUE(a && b);
}

TEST_F(CardBatchTest, StoppedProcessIsCaughtByTheWatchdog) {
  StartReady();
  ASSERT_TRUE(card().Load(Echo()).ok());
  kill(card().Info().pid, SIGSTOP);
  const auto ticket = Run(card(), 1, /*watchdog=*/100'000'000);
  EXPECT_EQ(ticket->result.outcome, BatchOutcome::kCardLost);
  EXPECT_THAT(ticket->result.status.message(), HasSubstr("watchdog: "));
  EXPECT_THAT(ticket->result.status.message(), HasSubstr("ran longer than 100ms"));
  ASSERT_TRUE(AwaitRestarts(card(), 1));
  EXPECT_THAT(card().Info().last_error, HasSubstr("watchdog"));
  ExpectEcho(card(), 1);
}

TEST_F(CardBatchTest, HangingModelIsCaughtAndOthersAreNotBlamed) {
  StartReady();
  Touch("once");
  const nlohmann::json rules = {{"run", "spin"}, {"once_file", Path("once")}};
  ASSERT_TRUE(card().Load(Artifact(1, "hang", rules)).ok());
  Ticket hangs, waits;
  Submit(card(), AwaitSlot(card()), &hangs, 1, 1, 0, /*watchdog=*/200'000'000);
  Submit(card(), AwaitSlot(card()), &waits, 1, 1, 0, /*watchdog=*/1);
  ASSERT_TRUE(hangs.done.WaitForNotificationWithTimeout(kPatience));
  ASSERT_TRUE(waits.done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_THAT(hangs.result.status.message(), HasSubstr("ran longer than 200ms"));
  EXPECT_TRUE(hangs.result.suspect);
  EXPECT_EQ(waits.result.outcome, BatchOutcome::kCardLost);
  EXPECT_FALSE(waits.result.started);
  ASSERT_TRUE(AwaitRestarts(card(), 1));
  ExpectEcho(card(), 1);
}

// Each lie costs the card its process, and nothing else.
class CardLiesTest : public CardsTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(CardLiesTest, IsKilledAndComesBack) {
  StartReady();
  Touch("once");
  ASSERT_TRUE(
      card().Load(Artifact(1, "liar", {{"run", GetParam()}, {"once_file", Path("once")}})).ok());
  const auto ticket = Run(card(), 1, /*watchdog=*/5'000'000'000);
  EXPECT_EQ(ticket->result.outcome, BatchOutcome::kCardLost) << ticket->result.status;
  EXPECT_THAT(ticket->result.status.message(),
              AnyOf(HasSubstr("answers nonsense"), HasSubstr("card error")));
  EXPECT_TRUE(ticket->result.suspect);
  EXPECT_TRUE(ticket->result.outputs.empty());
  ASSERT_TRUE(AwaitRestarts(card(), 1));
  ExpectEcho(card(), 1);
  EXPECT_EQ(ticket->completions, 1);
}

INSTANTIATE_TEST_SUITE_P(All, CardLiesTest,
                         ::testing::Values("bad_dtype", "bad_rank", "negative_dim", "bad_bytes",
                                           "bad_offset", "misaligned", "overlap", "many_outputs",
                                           "bad_sequence", "bad_state", "bad_outcome",
                                           "bad_message", "card_error"));

TEST_F(CardBatchTest, StreamedAnswerIsNonsenseToABatch) {
  StartReady();
  ASSERT_TRUE(card().Load(Artifact(1, "stream", {{"answers", 2}})).ok());
  const auto ticket = Run(card(), 1);
  EXPECT_EQ(ticket->result.outcome, BatchOutcome::kCardLost);
  EXPECT_THAT(ticket->result.status.message(), HasSubstr("flags 0"));
}

TEST_F(CardBatchTest, SurvivesACardThatScribblesOverTheChannel) {
  StartReady();
  Touch("once");
  ASSERT_TRUE(
      card()
          .Load(Artifact(1, "scribble", {{"run", "scribble"}, {"once_file", Path("once")}}))
          .ok());
  Ticket a, b;
  Submit(card(), AwaitSlot(card()), &a, 1, 1, 0, /*watchdog=*/3'000'000'000);
  Submit(card(), AwaitSlot(card()), &b, 1, 1, 0, /*watchdog=*/3'000'000'000);
  EXPECT_TRUE(a.done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_TRUE(b.done.WaitForNotificationWithTimeout(kPatience));
  ASSERT_TRUE(AwaitReady(card()));
  ExpectEcho(card(), 1);
  EXPECT_EQ(a.completions, 1);
  EXPECT_EQ(b.completions, 1);
}

// A process that writes while the front end reads: the answer is taken apart
// from private copies, so it is good or nonsense, never in between.
TEST_F(CardBatchTest, FieldsThatChangeWhileTheyAreRead) {
  StartReady();
  ASSERT_TRUE(card().Load(Echo()).ok());
  for (int round = 0; round < 3; ++round) {
    const int pid = card().Info().pid;
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    ASSERT_GE(pidfd, 0);
    auto mapping =
        channel::Mapping::Open(static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, 3, 0)));
    close(pidfd);
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    std::atomic<bool> stop{false};
    std::thread vandal([&] {
      uint64_t n = 0;
      while (!stop.load()) {
        for (uint32_t slot = 0; slot < channel::kSlots; ++slot) {
          channel::SlotControl& control = mapping->control(slot);
          *const_cast<volatile uint32_t*>(&control.output_count) = n++ % 3 == 0 ? 1000000 : 1;
          *const_cast<volatile uint64_t*>(&control.outputs[0].offset) = n * 0x10001;
          *const_cast<volatile uint32_t*>(&control.message_size) = static_cast<uint32_t>(n * 77);
        }
      }
    });
    const int restarts = card().Info().restarts;
    for (int i = 0; i < 10000 && card().Info().restarts == restarts; ++i) {
      const auto ticket = Run(card(), 1);
      if (ticket->result.outcome == BatchOutcome::kCardLost) break;
    }
    stop.store(true);
    vandal.join();
    EXPECT_TRUE(AwaitRestarts(card(), restarts + 1)) << "never caught";
    EXPECT_THAT(card().Info().last_error, HasSubstr("nonsense"));
  }
  ExpectEcho(card(), 1);
}

}  // namespace
}  // namespace belfry::cards
