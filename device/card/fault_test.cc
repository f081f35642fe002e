// The real belfry-card with a driver that misbehaves on purpose: what it
// survives, what it reports, and what goes on meanwhile.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "device/card/card_process.h"
#include "device/driver_fault/fault_artifact.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::card {
namespace {

using channel::Outcome;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr uint32_t kEcho = 1, kModel = 2;
// Long enough to notice what should not happen, if it does; nothing waits for
// it otherwise.
constexpr absl::Duration kQuiet = absl::Milliseconds(50);

class FaultTest : public ::testing::Test {
 protected:
  FaultTest() {
    std::string name = (std::filesystem::temp_directory_path() / "card_XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~FaultTest() override { std::filesystem::remove_all(dir_); }

  void SetUp() override {
    ASSERT_TRUE(card_.Hello().ok());
    ASSERT_TRUE(card_.LoadEcho(kEcho).status.ok());
  }

  std::string Artifact(const json& rules, const json& manifest = FaultManifest()) {
    const std::string dir = absl::StrCat(dir_, "/", next_++);
    WriteFaultArtifact(dir, rules, manifest);
    return dir;
  }
  std::string Gate() const { return dir_ + "/gate"; }
  void OpenGate() const { std::ofstream(Gate()) << "open"; }

  static std::vector<TestTensor> Rows(int64_t batch) {
    return {Floats({batch, 4}, std::vector<float>(static_cast<size_t>(batch * 4), 1.5f))};
  }

  void ExpectServes() {
    const auto answer = card_.Run(kEcho, Rows(2));
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->outcome, Outcome::kOk) << answer->message;
    EXPECT_EQ(answer->tensors, Rows(2));
  }

  std::string dir_;
  int next_ = 0;
  CardProcess card_{{"--driver", "fault"}};
};

TEST_F(FaultTest, RunsAnArtifact) {
  const auto reply = card_.Load(kModel, Artifact({{"resident_bytes", 1234}}));
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.resident_bytes, 1234u);
  EXPECT_TRUE(card_.Warm(kModel, 8).status.ok());
  const auto answer = card_.Run(kModel, Rows(3));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->outcome, Outcome::kOk) << answer->message;
  EXPECT_EQ(answer->tensors, Rows(3));
}

TEST_F(FaultTest, BrokenArtifactsLeaveTheCardServing) {
  std::ofstream(Artifact(json::object()) + "/manifest.json") << "{";  // artifact 0
  json no_entry = FaultManifest();
  no_entry["entry"]["path"] = "../fault.json";
  json other_kind = FaultManifest();
  other_kind["entry"]["kind"] = "aoti";
  const std::pair<std::string, const char*> cases[] = {
      {dir_ + "/nothing", "manifest.json"},
      {dir_ + "/0", "not JSON"},
      {Artifact(json::object(), no_entry), "entry.path"},
      {Artifact(json::object(), other_kind), "aoti"},
      {Artifact({{"load", "fail"}}), "a fault on purpose"},
      {Artifact(json::array()), "expected an object"},
  };
  for (const auto& [dir, text] : cases) {
    const auto reply = card_.Load(kModel, dir);
    EXPECT_EQ(reply.status.code(), absl::StatusCode::kFailedPrecondition) << dir;
    EXPECT_THAT(std::string(reply.status.message()), HasSubstr(text));
    ExpectServes();
  }
  EXPECT_EQ(card_.Run(kModel, Rows(1))->outcome, Outcome::kNoExecutable);
}

TEST_F(FaultTest, AFileThatIsALinkOutOfTheArtifactIsNotLoaded) {
  const std::string dir = Artifact(json::object());
  std::filesystem::rename(dir + "/fault.json", dir_ + "/outside.json");
  std::filesystem::create_symlink(dir_ + "/outside.json", dir + "/fault.json");
  EXPECT_THAT(std::string(card_.Load(kModel, dir).status.message()), HasSubstr("outside"));
}

TEST_F(FaultTest, AFailedWarmUpLeavesTheExecutable) {
  ASSERT_TRUE(card_.Load(kModel, Artifact({{"warm", "fail"}})).status.ok());
  EXPECT_EQ(card_.Warm(kModel, 1).status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(card_.Warm(kModel, 5000).status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(card_.Run(kModel, Rows(1))->outcome, Outcome::kOk);
}

TEST_F(FaultTest, TensorsThatTheModelWasNotMadeForNeverReachIt) {
  ASSERT_TRUE(card_.Load(kModel, Artifact({{"run", "crash"}})).status.ok());
  const std::vector<std::vector<TestTensor>> wrong = {
      {},
      {Rows(1)[0], Rows(1)[0]},
      {Floats({1, 5}, {1, 2, 3, 4, 5})},
      {Floats({4}, {1, 2, 3, 4})},
      {Floats({0, 4}, {})},
      {Floats({1025, 4}, std::vector<float>(4100))},
      {{DataType::kInt32, {1, 4}, std::vector<uint8_t>(16)}},
  };
  for (const auto& inputs : wrong) {
    const auto answer = card_.Run(kModel, inputs);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->outcome, Outcome::kBadRequest);
    EXPECT_THAT(answer->message, HasSubstr("expected"));
  }
  ExpectServes();
}

TEST_F(FaultTest, ExecutionGoesOnWhileAModelLoads) {
  channel::Request load;
  load.op = channel::Op::kLoad;
  load.executable = kModel;
  load.dir = Artifact({{"load_gate", Gate()}});
  const uint64_t id = card_.Send(load);
  for (int i = 0; i < 100; ++i) ExpectServes();
  EXPECT_EQ(card_.Receive(absl::ZeroDuration()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  OpenGate();
  const auto reply = card_.Receive(absl::Seconds(60));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->id, id);
  EXPECT_TRUE(reply->status.ok()) << reply->status;
}

TEST_F(FaultTest, UnloadWaitsForTheCallUnderWay) {
  for (const bool async : {false, true}) {
    std::filesystem::remove(Gate());
    std::filesystem::remove(dir_ + "/started");
    const std::string dir = Artifact(
        {{"run_gate", Gate()}, {"run_started", dir_ + "/started"}, {"async", async}});
    ASSERT_TRUE(card_.Load(kModel, dir).status.ok());
    card_.Submit(0, kModel, Rows(1));
    while (!std::filesystem::exists(dir_ + "/started")) usleep(100);
    channel::Request unload;
    unload.op = channel::Op::kUnload;
    unload.executable = kModel;
    const uint64_t id = card_.Send(unload);
    EXPECT_EQ(card_.Receive(kQuiet).status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_FALSE(card_.IsDone(0));
    OpenGate();
    EXPECT_EQ(card_.Await(0)->outcome, Outcome::kOk);
    const auto reply = card_.Receive(absl::Seconds(60));
    ASSERT_TRUE(reply.ok());
    EXPECT_EQ(reply->id, id);
    EXPECT_TRUE(reply->status.ok());
    EXPECT_EQ(card_.Run(kModel, Rows(1))->outcome, Outcome::kNoExecutable);
  }
}

TEST_F(FaultTest, ShutdownFinishesWhatIsSubmitted) {
  ASSERT_TRUE(card_.Load(kModel, Artifact({{"run_ms", 20}, {"async", true}})).status.ok());
  card_.Submit(0, kModel, Rows(1));
  card_.Submit(1, kModel, Rows(2));
  channel::Request r;
  r.op = channel::Op::kShutdown;
  EXPECT_TRUE(card_.Ask(r).status.ok());
  EXPECT_TRUE(card_.IsDone(0));
  EXPECT_TRUE(card_.IsDone(1));
  const int status = card_.WaitExit();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(FaultTest, ABelfrydThatGoesEndsTheCardAlsoWhileItLoadsOrRuns) {
  ASSERT_TRUE(card_.Load(kModel, Artifact({{"run", "hang"}})).status.ok());
  card_.Submit(0, kModel, Rows(1));
  channel::Request load;
  load.op = channel::Op::kLoad;
  load.executable = 3;
  load.dir = Artifact({{"load", "hang"}});
  card_.Send(load);
  card_.CloseControl();
  const int status = card_.WaitExit();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(FaultTest, OutcomesOfTheDriverAreTold) {
  const std::pair<const char*, Outcome> cases[] = {
      {"error", Outcome::kModelError},
      {"card_error", Outcome::kCardError},
      {"too_large", Outcome::kOutputTooLarge},
      {"many_outputs", Outcome::kCardError},
  };
  for (const bool async : {false, true}) {
    for (const auto& [fault, outcome] : cases) {
      ASSERT_TRUE(card_.Load(kModel, Artifact({{"run", fault}, {"async", async}})).status.ok());
      const auto answer = card_.Run(kModel, Rows(1));
      ASSERT_TRUE(answer.has_value());
      EXPECT_EQ(answer->outcome, outcome) << fault;
      EXPECT_FALSE(answer->message.empty());
      EXPECT_TRUE(answer->descs.empty());
      ExpectServes();
      ASSERT_TRUE(card_.Unload(kModel).status.ok());
    }
  }
}

TEST_F(FaultTest, ACallMayHaveSeveralAnswers) {
  for (const bool async : {false, true}) {
    ASSERT_TRUE(card_.Load(kModel, Artifact({{"answers", 50}, {"async", async}})).status.ok());
    card_.Submit(0, kModel, Rows(1));
    for (int i = 1; i <= 50; ++i) {
      const auto answer = card_.Await(0);
      ASSERT_TRUE(answer.has_value());
      EXPECT_EQ(answer->last, i == 50) << i;
      EXPECT_EQ(answer->tensors, Rows(1));
    }
    ExpectServes();
    ASSERT_TRUE(card_.Unload(kModel).status.ok());
  }
}

TEST_F(FaultTest, ASecondBatchOverlapsAnAsynchronousOne) {
  ASSERT_TRUE(
      card_.Load(kModel, Artifact({{"run_gate", Gate()}, {"async", true}})).status.ok());
  card_.Submit(1, kModel, Rows(1));
  ExpectServes();  // in slot 0
  EXPECT_FALSE(card_.IsDone(1));
  OpenGate();
  EXPECT_EQ(card_.Await(1)->outcome, Outcome::kOk);
}

TEST_F(FaultTest, ACrashEndsTheProcessAndTheSocketTells) {
  ASSERT_TRUE(card_.Load(kModel, Artifact({{"run", "crash"}, {"on_call", 2}})).status.ok());
  EXPECT_EQ(card_.Run(kModel, Rows(1))->outcome, Outcome::kOk);
  EXPECT_FALSE(card_.Run(kModel, Rows(1)).has_value());
  EXPECT_TRUE(absl::IsUnavailable(card_.Receive(absl::Seconds(60)).status()));
  const int status = card_.WaitExit();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
}

TEST_F(FaultTest, ACrashAtLoadIsSeenAsALostCard) {
  EXPECT_TRUE(absl::IsUnavailable(card_.Load(kModel, Artifact({{"load", "exit"}})).status));
  const int status = card_.WaitExit();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
}

TEST(FaultMemoryTest, AnArtifactThatDoesNotFitIsRefusedBeforeItIsLoaded) {
  std::string name = (std::filesystem::temp_directory_path() / "card_XXXXXX").string();
  const std::string dir = mkdtemp(name.data());
  json manifest = FaultManifest();
  manifest["files"][0]["bytes"] = 101;
  WriteFaultArtifact(dir + "/a", {{"load", "crash"}}, manifest);
  CardProcess card({"--driver", "fault", "--driver-json",
                    R"({"memory_used":900,"memory_total":1000})"});
  ASSERT_TRUE(card.Hello().ok());
  const auto reply = card.Load(1, dir + "/a");
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kResourceExhausted) << reply.status;
  EXPECT_EQ(reply.memory_used, 900u);
  EXPECT_EQ(reply.memory_total, 1000u);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace belfry::card
