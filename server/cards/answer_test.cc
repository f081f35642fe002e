#include "server/cards/answer.h"

#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include "device/channel/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::cards {
namespace {

using channel::Outcome;
using channel::SlotControl;
using ::testing::HasSubstr;

constexpr ExpectedAnswer kExpected = {
    .sequence = 7, .submitted = 1000, .now = 5000, .arena_bytes = 4096};

class AnswerTest : public ::testing::Test {
 protected:
  AnswerTest() : control_(std::make_unique<SlotControl>()) {
    SlotControl& c = *control_;
    c.done_sequence = 7;
    c.outcome = static_cast<uint32_t>(Outcome::kOk);
    c.flags = channel::kLast;
    c.output_count = 1;
    c.start_ns = 2000;
    c.end_ns = 3000;
    c.cycles = 42;
    c.outputs[0].dtype = static_cast<uint8_t>(DataType::kFp32);
    c.outputs[0].rank = 2;
    c.outputs[0].dims[0] = 4;
    c.outputs[0].dims[1] = 2;
    c.outputs[0].offset = 64;
    c.outputs[0].bytes = 32;
  }
  void Say(Outcome outcome, const std::string& message) {
    control_->outcome = static_cast<uint32_t>(outcome);
    control_->message_size = static_cast<uint32_t>(message.size());
    std::memcpy(control_->message, message.data(), message.size());
  }
  auto Read() const { return ReadAnswer(*control_, kExpected); }

  std::unique_ptr<SlotControl> control_;
};

TEST_F(AnswerTest, GoodAnswer) {
  const auto result = Read();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outcome, BatchOutcome::kOk);
  EXPECT_TRUE(result->status.ok());
  ASSERT_EQ(result->outputs.size(), 1u);
  EXPECT_EQ(result->outputs[0].dims[0], 4);
  EXPECT_EQ(result->start_ns, 2000);
  EXPECT_EQ(result->end_ns, 3000);
  EXPECT_EQ(result->cycles, 42u);
}

TEST_F(AnswerTest, NonsenseIsAnErrorThatSaysWhy) {
  struct Case {
    const char* name;
    std::function<void(SlotControl&)> spoil;
    const char* says;
  };
  const Case cases[] = {
      {"sequence", [](SlotControl& c) { c.done_sequence = 8; }, "sequence 8, expected 7"},
      {"outcome", [](SlotControl& c) { c.outcome = 99; }, "outcome 99"},
      {"not last", [](SlotControl& c) { c.flags = 0; }, "flags 0"},
      {"unknown flag", [](SlotControl& c) { c.flags = 3; }, "flags 3"},
      {"message", [](SlotControl& c) { c.message_size = channel::kMaxMessage + 1; },
       "1025 bytes"},
      {"count", [](SlotControl& c) { c.output_count = 0xffffffff; }, "4294967295 tensors"},
      {"dtype", [](SlotControl& c) { c.outputs[0].dtype = 200; }, "tensor 0"},
      {"rank", [](SlotControl& c) { c.outputs[0].rank = 13; }, "tensor 0"},
      {"negative", [](SlotControl& c) { c.outputs[0].dims[0] = -4; }, "tensor 0"},
      {"bytes", [](SlotControl& c) { c.outputs[0].bytes = 36; }, "tensor 0"},
      {"outside", [](SlotControl& c) { c.outputs[0].offset = 4096 - 28; }, "tensor 0"},
      {"wraps", [](SlotControl& c) { c.outputs[0].offset = ~uint64_t{63}; }, "tensor 0"},
  };
  for (const Case& c : cases) {
    auto spoiled = std::make_unique<SlotControl>();
    std::memcpy(static_cast<void*>(spoiled.get()), control_.get(), sizeof(SlotControl));
    c.spoil(*spoiled);
    const auto result = ReadAnswer(*spoiled, kExpected);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << c.name;
    EXPECT_THAT(result.status().message(), HasSubstr("answers nonsense")) << c.name;
    EXPECT_THAT(result.status().message(), HasSubstr(c.says)) << c.name;
  }
}

TEST_F(AnswerTest, TimesAreClampedToTheStayOnTheCard) {
  control_->start_ns = 1;
  control_->end_ns = std::numeric_limits<uint64_t>::max();
  auto result = Read();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->start_ns, 1000);
  EXPECT_EQ(result->end_ns, 5000);
  control_->start_ns = 4000;
  control_->end_ns = 2000;
  result = Read();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->start_ns, 4000);
  EXPECT_EQ(result->end_ns, 4000);
}

TEST_F(AnswerTest, OutcomesOfTheModel) {
  struct Case {
    Outcome outcome;
    BatchOutcome expected;
    absl::StatusCode code;
  };
  for (const Case& c : {Case{Outcome::kModelError, BatchOutcome::kModelError,
                             absl::StatusCode::kInternal},
                        Case{Outcome::kNoExecutable, BatchOutcome::kNoExecutable,
                             absl::StatusCode::kFailedPrecondition},
                        Case{Outcome::kBadRequest, BatchOutcome::kModelError,
                             absl::StatusCode::kInternal},
                        Case{Outcome::kOutputTooLarge, BatchOutcome::kOutputTooLarge,
                             absl::StatusCode::kResourceExhausted}}) {
    Say(c.outcome, "words");
    const auto result = Read();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->outcome, c.expected);
    EXPECT_EQ(result->status.code(), c.code);
    EXPECT_THAT(result->status.message(), HasSubstr("words"));
    EXPECT_TRUE(result->outputs.empty());
  }
}

TEST_F(AnswerTest, TextsAreMadePrintable) {
  Say(Outcome::kModelError, std::string("a\n\x1b[31mb\0c", 10));
  const auto result = Read();
  ASSERT_TRUE(result.ok());
  for (const char c : std::string(result->status.message())) {
    EXPECT_GE(c, 0x20) << result->status;
  }
}

TEST_F(AnswerTest, CardErrorAsksForARestart) {
  Say(Outcome::kCardError, "bus is gone");
  const auto result = Read();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(result.status().message(), HasSubstr("bus is gone"));
}

}  // namespace
}  // namespace belfry::cards
