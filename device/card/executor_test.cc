#include "device/card/executor.h"

#include <string.h>
#include <unistd.h>

#include "device/card/echo.h"
#include "gtest/gtest.h"

namespace belfry::card {
namespace {

using channel::SlotState;

void Submit(channel::Mapping& mapping, uint32_t slot, uint64_t sequence) {
  channel::SlotControl& control = mapping.control(slot);
  control.sequence = sequence;
  control.executable = 1;
  control.input_count = 0;
  control.state.store(static_cast<uint32_t>(SlotState::kSubmitted), std::memory_order_release);
}

TEST(ExecutorTest, RunsInTheOrderOfSequence) {
  for (const bool first_slot_first : {true, false}) {
    auto front = channel::Mapping::Create(4096, 4096);
    ASSERT_TRUE(front.ok());
    auto card = channel::Mapping::Open(dup(front->fd()));
    ASSERT_TRUE(card.ok());
    ExecutableTable table;
    ASSERT_TRUE(table.Add(1, "echo", std::make_unique<EchoExecutable>()).ok());
    Executor executor(&*card, &table, absl::ZeroDuration());
    // Both are there before the thread looks.
    Submit(*front, 0, first_slot_first ? 10 : 11);
    Submit(*front, 1, first_slot_first ? 11 : 10);
    executor.Start();
    executor.Drain();
    const channel::SlotControl& a = front->control(0);
    const channel::SlotControl& b = front->control(1);
    ASSERT_EQ(a.state.load(), static_cast<uint32_t>(SlotState::kDone));
    ASSERT_EQ(b.state.load(), static_cast<uint32_t>(SlotState::kDone));
    const auto& early = first_slot_first ? a : b;
    const auto& late = first_slot_first ? b : a;
    EXPECT_LE(early.end_ns, late.start_ns);
    EXPECT_EQ(early.done_sequence, 10u);
    EXPECT_EQ(late.done_sequence, 11u);
  }
}

// Answers with a text of a given length.
class Failing final : public Executable {
 public:
  explicit Failing(size_t length) : length_(length) {}
  absl::Status Check(std::span<const channel::TensorDesc>) const override {
    return absl::OkStatus();
  }
  void Submit(belfry_call* call) override {
    memset(call->error.text, 'x', length_);
    call->done(call, BELFRY_MODEL_ERROR, 1);
  }
  absl::Status Warm(const std::vector<std::pair<std::string, int64_t>>&) override {
    return absl::OkStatus();
  }
  uint64_t resident_bytes() const override { return 0; }

 private:
  const size_t length_;
};

TEST(ExecutorTest, ErrorTextsAreCutToWhatASlotHolds) {
  auto front = channel::Mapping::Create(4096, 4096);
  ASSERT_TRUE(front.ok());
  ExecutableTable table;
  // Not terminated: the driver filled the text to its end.
  ASSERT_TRUE(table.Add(1, "", std::make_unique<Failing>(BELFRY_DRIVER_ERROR_BYTES)).ok());
  Executor executor(&*front, &table, absl::ZeroDuration());
  Submit(*front, 0, 1);
  executor.Start();
  executor.Drain();
  EXPECT_EQ(front->control(0).outcome, static_cast<uint32_t>(channel::Outcome::kModelError));
  EXPECT_EQ(front->control(0).message_size, channel::kMaxMessage);
}

}  // namespace
}  // namespace belfry::card
