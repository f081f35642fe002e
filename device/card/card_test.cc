// Starts the real belfry-card and speaks to it as belfryd does. What concerns
// faults of drivers and artifacts is in fault_test.cc.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "device/card/card_process.h"
#include "device/channel/doorbell.h"
#include "device/channel/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::card {
namespace {

using channel::Outcome;
using ::testing::HasSubstr;

constexpr uint32_t kEcho = 7;

std::vector<std::string> Flags() { return {"--driver", "fault"}; }

TestTensor Filled(DataType dtype, std::vector<int64_t> dims) {
  TestTensor t{dtype, std::move(dims), {}};
  size_t bytes = DataTypeSize(dtype);
  for (int64_t d : t.dims) bytes *= static_cast<size_t>(d);
  for (size_t i = 0; i < bytes; ++i) t.data.push_back(static_cast<uint8_t>(i * 7 + 1));
  return t;
}

class CardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(card_.Hello().ok());
    ASSERT_TRUE(card_.LoadEcho(kEcho).status.ok());
  }

  // The card still does its work.
  void ExpectServes() {
    const std::vector<TestTensor> inputs = {Filled(DataType::kInt32, {3})};
    const auto answer = card_.Run(kEcho, inputs);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->outcome, Outcome::kOk) << answer->message;
    EXPECT_EQ(answer->tensors, inputs);
  }

  CardProcess card_{Flags()};
};

TEST(CardStartTest, SaysHello) {
  CardProcess card(Flags());
  const auto hello = card.Hello();
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_EQ(hello->driver, "fault");
  EXPECT_EQ(hello->pid, card.pid());
  EXPECT_EQ(hello->describe.at("driver"), "fault/1");
}

TEST_F(CardTest, EchoesEveryTypeAndShape) {
  std::vector<TestTensor> inputs;
  for (int d = 1; d < kDataTypeCount; ++d) {
    const auto dtype = static_cast<DataType>(d);
    if (dtype == DataType::kBytes) continue;
    inputs.push_back(Filled(dtype, {2, 5}));
    inputs.push_back(Filled(dtype, {}));
    inputs.push_back(Filled(dtype, {3, 0}));
    inputs.push_back(Filled(dtype, std::vector<int64_t>(channel::kMaxRank, 1)));
  }
  inputs.push_back({DataType::kBytes, {2}, {3, 0, 0, 0, 'a', 'b', 'c', 0, 0, 0, 0}});
  const auto answer = card_.Run(kEcho, inputs);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->outcome, Outcome::kOk) << answer->message;
  EXPECT_TRUE(answer->last);
  EXPECT_EQ(answer->tensors, inputs);
  EXPECT_LE(answer->start_ns, answer->end_ns);
}

TEST_F(CardTest, EchoesAsManyTensorsAsASlotHas) {
  const std::vector<TestTensor> inputs(channel::kMaxTensors, Filled(DataType::kUint8, {3}));
  const auto answer = card_.Run(kEcho, inputs);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->tensors, inputs);
}

TEST_F(CardTest, UsesBothSlotsManyTimes) {
  for (int i = 0; i < 2000; ++i) {
    const std::vector<TestTensor> a = {Floats({1}, {static_cast<float>(i)})};
    const std::vector<TestTensor> b = {Floats({2}, {static_cast<float>(-i), 1})};
    card_.Submit(0, kEcho, a);
    card_.Submit(1, kEcho, b);
    const auto second = card_.Await(1);
    const auto first = card_.Await(0);
    ASSERT_TRUE(first && second);
    ASSERT_EQ(first->tensors, a);
    ASSERT_EQ(second->tensors, b);
    ASSERT_EQ(first->sequence + 1, second->sequence);
  }
}

TEST_F(CardTest, KnowsOnlyWhatIsLoaded) {
  const auto answer = card_.Run(99, {Floats({1}, {1})});
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->outcome, Outcome::kNoExecutable);
  EXPECT_TRUE(answer->descs.empty());
  ExpectServes();
}

struct Hostile {
  const char* name;
  std::function<void(channel::SlotControl&)> spoil;
};

class HostileTest : public CardTest, public ::testing::WithParamInterface<Hostile> {};

TEST_P(HostileTest, IsRefusedAndTheCardGoesOn) {
  card_.Fill(0, kEcho, {Filled(DataType::kFp32, {4}), Filled(DataType::kInt64, {2, 2})});
  GetParam().spoil(card_.mapping().control(0));
  card_.Ring(0);
  const auto answer = card_.Await(0);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->outcome, Outcome::kBadRequest);
  EXPECT_FALSE(answer->message.empty());
  EXPECT_TRUE(answer->descs.empty());
  ExpectServes();
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileTest,
    ::testing::Values(
        Hostile{"Overlap", [](auto& c) { c.inputs[1].offset = 0; }},
        Hostile{"OutOfRange", [](auto& c) { c.inputs[1].offset = CardProcess::kArena; }},
        Hostile{"Wraps", [](auto& c) { c.inputs[1].offset = UINT64_MAX - 63; }},
        Hostile{"Misaligned", [](auto& c) { c.inputs[1].offset += 8; }},
        Hostile{"Rank", [](auto& c) { c.inputs[0].rank = 255; }},
        Hostile{"Negative", [](auto& c) { c.inputs[0].dims[0] = -4; }},
        Hostile{"Overflow",
                [](auto& c) { c.inputs[1].dims[0] = c.inputs[1].dims[1] = int64_t{1} << 62; }},
        Hostile{"Bytes", [](auto& c) { c.inputs[0].bytes = UINT64_MAX; }},
        Hostile{"Dtype", [](auto& c) { c.inputs[0].dtype = 0; }},
        Hostile{"Count", [](auto& c) { c.input_count = channel::kMaxTensors + 1; }},
        Hostile{"CountMax", [](auto& c) { c.input_count = UINT32_MAX; }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(CardTest, ARepeatedSequenceIsRefused) {
  ExpectServes();
  card_.Fill(1, kEcho, {Floats({1}, {1})});
  --card_.mapping().control(1).sequence;
  card_.Ring(1);
  const auto answer = card_.Await(1);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->outcome, Outcome::kBadRequest);
  ExpectServes();
}

TEST(CardStartTest, OutputsThatDoNotFitAreToldSo) {
  CardProcess card(Flags(), 1 << 20, 4096);
  ASSERT_TRUE(card.Hello().ok());
  ASSERT_TRUE(card.LoadEcho(1).status.ok());
  const auto answer = card.Run(1, {Filled(DataType::kUint8, {5000})});
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->outcome, Outcome::kOutputTooLarge);
  EXPECT_EQ(card.Run(1, {Filled(DataType::kUint8, {4096})})->outcome, Outcome::kOk);
  EXPECT_EQ(card.Run(1, {Filled(DataType::kUint8, {4033}), Filled(DataType::kUint8, {1})})->outcome,
            Outcome::kOutputTooLarge);
}

TEST_F(CardTest, LoadsAndUnloads) {
  EXPECT_EQ(card_.LoadEcho(kEcho).status.code(), absl::StatusCode::kAlreadyExists);
  channel::Request other;
  other.op = channel::Op::kLoad;
  other.executable = 3;
  other.builtin = "parrot";
  EXPECT_EQ(card_.Ask(other).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(card_.Unload(3).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(card_.Warm(3, 1).status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(card_.Warm(kEcho, 1).status.ok());
  EXPECT_TRUE(card_.Unload(kEcho).status.ok());
  EXPECT_EQ(card_.Run(kEcho, {})->outcome, Outcome::kNoExecutable);
  EXPECT_TRUE(card_.LoadEcho(kEcho).status.ok());
  ExpectServes();
}

TEST_F(CardTest, GarbageOnTheControlSocketIsAnsweredWithAnError) {
  const std::pair<std::string, uint64_t> messages[] = {
      {"not json", 0},
      {std::string("\0\xff", 2), 0},
      {"[1,2]", 0},
      {R"({"id":5})", 5},
      {R"({"id":6,"op":"load","executable":1})", 6},
      {std::string(60000, '['), 0},
      {R"({"id":7,"op":"warm","executable":7,"shapes":[{"batch":"x"}]})", 7},
  };
  for (const auto& [message, id] : messages) {
    ASSERT_TRUE(card_.socket().Send(message, absl::Seconds(60)).ok());
    const auto reply = card_.Receive(absl::Seconds(60));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(reply->id, id);
  }
  const std::string long_one(channel::kMaxControlBytes + 1, ' ');
  ASSERT_GT(send(card_.socket().fd(), long_one.data(), long_one.size(), 0), 0);
  EXPECT_EQ(card_.Receive(absl::Seconds(60))->status.code(), absl::StatusCode::kInvalidArgument);
  ExpectServes();
}

TEST_F(CardTest, ExitsWhenTheControlSocketIsClosed) {
  card_.CloseControl();
  const int status = card_.WaitExit();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(CardTest, ShutsDownWhenAsked) {
  channel::Request r;
  r.op = channel::Op::kShutdown;
  EXPECT_TRUE(card_.Ask(r).status.ok());
  const int status = card_.WaitExit();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(CardTest, LeavesTheSignalsOfAGroupToItsParent) {
  for (int s : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) kill(card_.pid(), s);
  ExpectServes();
}

// The parent is a process between the test and the card; when it dies the test
// still holds the control socket open, so that only the signal can end the card.
TEST(CardStartTest, DiesWithItsParent) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  auto mapping = *channel::Mapping::Create(4096, 4096);
  auto pair = *channel::ControlSocket::CreatePair();
  const pid_t parent = fork();
  if (parent == 0) {
    if (fork() == 0) {
      dup2(mapping.fd(), 30);
      dup2(pair.second.fd(), 31);
      execl(BELFRY_CARD_BINARY, "belfry-card", "--driver", "fault", "--channel-fd", "30",
            "--control-fd", "31", nullptr);
      _exit(127);
    }
    for (;;) pause();
  }
  auto hello = channel::ParseHello(*pair.first.Receive(absl::Seconds(60)));
  ASSERT_TRUE(hello.ok());
  kill(parent, SIGKILL);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  int status = 0;
  ASSERT_EQ(waitpid(hello->pid, &status, 0), hello->pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

std::set<std::string> ThreadNames(pid_t pid) {
  std::set<std::string> names;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(tasks)) {
    std::ifstream comm(entry.path() / "comm");
    std::string name;
    std::getline(comm, name);
    names.insert(name);
  }
  return names;
}

// Each thread names itself when it first runs, which may be after the hello.
TEST(CardStartTest, NamesItsThreads) {
  CardProcess card(Flags());
  ASSERT_TRUE(card.Hello().ok());
  const std::set<std::string> expected = {"card-control", "card-exec", "card-watch"};
  for (int i = 0; i < 60'000 && ThreadNames(card.pid()) != expected; ++i) usleep(1000);
  EXPECT_EQ(ThreadNames(card.pid()), expected);
}

TEST(CardStartTest, TellsWhyItCannotOpen) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--driver", "nosuch"}, "libbelfry_driver_nosuch.so"},
      {{"--driver", "fault", "--driver-json", R"({"open":"fail"})"}, "a fault on purpose"},
      {{"--driver", "fault", "--cores", "1000"}, "--cores 1000"},
  };
  for (const auto& [flags, text] : cases) {
    CardProcess card(flags);
    const auto reply = card.Receive(absl::Seconds(60));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->id, 0u);
    EXPECT_THAT(std::string(reply->status.message()), HasSubstr(text));
    const int status = card.WaitExit();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  }
}

TEST(CommandLineTest, DescribePrintsJsonAndNothingElse) {
  const Finished f = RunCard({"--driver", "fault", "--describe"});
  EXPECT_EQ(f.status, 0);
  const auto describe = channel::ParseDescribe(f.out);
  ASSERT_TRUE(describe.ok()) << f.out;
  EXPECT_EQ(describe->at("isa"), "none");
}

TEST(CommandLineTest, HelpAndErrors) {
  const Finished help = RunCard({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("--channel-fd"));
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, {"--driver", "fault"}, {"--nonsense", "1"}, {"--driver"}}) {
    const Finished f = RunCard(flags);
    EXPECT_TRUE(WIFEXITED(f.status) && WEXITSTATUS(f.status) == 2);
    EXPECT_EQ(f.out, "");
  }
}

}  // namespace
}  // namespace belfry::card
