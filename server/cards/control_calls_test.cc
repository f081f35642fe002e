#include "server/cards/control_calls.h"

#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::cards {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ControlCallsTest : public ::testing::Test {
 protected:
  static std::shared_ptr<ControlCall> Make(const std::string& what) {
    auto call = std::make_shared<ControlCall>();
    call->request.op = channel::Op::kLoad;
    call->what = what;
    return call;
  }
  absl::Status Answer(uint64_t id, absl::Status status = absl::OkStatus()) {
    channel::Reply reply;
    reply.id = id;
    reply.status = std::move(status);
    return calls_.Finish(reply);
  }
  uint64_t Send() {
    const uint64_t id = calls_.NextToSend().value().id;
    calls_.Sent();
    return id;
  }

  ManualClock clock_;
  ControlCalls calls_{"cpu:0", [] {}, &clock_};
};

TEST_F(ControlCallsTest, AnswersMayComeInAnyOrder) {
  const auto a = Make("loading a"), b = Make("warming b");
  calls_.Start(a);
  calls_.Start(b);
  const uint64_t id_a = Send(), id_b = Send();
  EXPECT_FALSE(calls_.NextToSend().has_value());
  bool b_ok = false;
  b->on_ok = [&] { b_ok = true; };
  EXPECT_TRUE(Answer(id_b).ok());
  EXPECT_TRUE(b_ok);
  EXPECT_TRUE(b->done.HasBeenNotified());
  EXPECT_FALSE(a->done.HasBeenNotified());
  EXPECT_TRUE(Answer(id_a, absl::ResourceExhaustedError("no\nroom")).ok());
  EXPECT_EQ(a->status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(a->status.message()).find('\n'), std::string::npos);
  EXPECT_TRUE(calls_.idle());
}

TEST_F(ControlCallsTest, UnaskedAnswersAreNonsense) {
  EXPECT_FALSE(Answer(1).ok());
  const auto a = Make("loading a");
  calls_.Start(a);
  const uint64_t id = calls_.NextToSend()->id;
  EXPECT_FALSE(Answer(id).ok()) << "was not sent yet";
  calls_.Sent();
  EXPECT_TRUE(Answer(id).ok());
  EXPECT_FALSE(Answer(id).ok()) << "was answered before";
}

TEST_F(ControlCallsTest, DeathTellsTheOldestThatItWasTheOne) {
  const auto a = Make("loading a"), b = Make("loading b");
  calls_.Start(a);
  calls_.Start(b);
  Send();
  calls_.FailAll(absl::UnavailableError("killed by signal 11"));
  EXPECT_EQ(a->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(a->status.message(),
              AllOf(HasSubstr("died while loading a"), HasSubstr("signal 11")));
  EXPECT_THAT(b->status.message(), HasSubstr("died before loading b"));
  EXPECT_FALSE(calls_.NextToSend().has_value());
}

TEST_F(ControlCallsTest, OnlyTheOldestIsTimed) {
  const auto a = Make("loading a"), b = Make("loading b");
  calls_.Start(a);
  clock_.Advance(10);
  calls_.Start(b);
  const uint64_t id = Send();
  Send();
  std::string what;
  auto running = calls_.Running(absl::Nanoseconds(100), &what);
  EXPECT_EQ(what, "loading a");
  EXPECT_EQ(running->deadline, a->started + 100);
  clock_.Advance(50);
  ASSERT_TRUE(Answer(id).ok());
  running = calls_.Running(absl::Nanoseconds(100), &what);
  EXPECT_EQ(what, "loading b");
  EXPECT_EQ(running->deadline, clock_.Now() + 100);
  calls_.FailAll(absl::UnavailableError("end"));
}

TEST_F(ControlCallsTest, ImpatientCallersLearnWhy) {
  calls_.SetUnavailable(absl::UnavailableError("no such driver"));
  const absl::Status status = calls_.Run(Make("loading a"), absl::ZeroDuration());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("loading a"), HasSubstr("no such driver")));
  calls_.Stop();
  EXPECT_THAT(calls_.Run(Make("loading a"), absl::InfiniteDuration()).message(),
              HasSubstr("is stopped"));
}

TEST_F(ControlCallsTest, WaitsForTheCardToOpen) {
  const auto call = Make("loading a");
  absl::Status status = absl::UnknownError("not run");
  std::thread caller([&] { status = calls_.Run(call, absl::InfiniteDuration()); });
  calls_.Open();
  while (!calls_.NextToSend()) std::this_thread::yield();
  ASSERT_TRUE(Answer(Send()).ok());
  caller.join();
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace belfry::cards
