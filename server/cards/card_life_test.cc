// The life of card processes: start, restart, residents, stop.
#include <sched.h>
#include <sys/syscall.h>

#include <set>
#include <thread>

#include "device/channel/control.h"
#include "server/cards/card_harness.h"

namespace belfry::cards {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using CardLifeTest = CardsTest;

int OpenFiles() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

int ChannelMappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("belfry-channel") != std::string::npos) ++count;
  }
  return count;
}

TEST_F(CardLifeTest, BecomesReadyAndTellsAboutItself) {
  options_.groups = {{"fault", 2}};
  options_.driver_json = R"({"memory_used": 5, "memory_total": 100})";
  StartReady();
  EXPECT_TRUE(pool_->WaitStarted(kPatience));
  const CardInfo info = card(1).Info();
  EXPECT_EQ(info.name, "fault:1");
  EXPECT_EQ(info.driver, "fault");
  EXPECT_EQ(info.state, CardState::kReady);
  EXPECT_TRUE(ProcessExists(info.pid));
  EXPECT_EQ(info.restarts, 0);
  EXPECT_EQ(info.last_error, "");
  EXPECT_EQ(info.memory_used, 5u);
  EXPECT_EQ(info.memory_total, 100u);
  EXPECT_EQ(card(1).index(), 1);
}

TEST_F(CardLifeTest, WrongOptionsAreRefused) {
  options_.card_binary = "/nonexistent/belfry-card";
  EXPECT_THAT(CardPool::Start(options_, &book_).status().message(),
              HasSubstr("/nonexistent/belfry-card"));
  options_.card_binary = BELFRY_CARD_BINARY;
  options_.groups.clear();
  EXPECT_FALSE(CardPool::Start(options_, &book_).ok());
  options_.groups = {{"fault", 1}};
  options_.pin = true;
  options_.cores_per_card = 1 << 20;
  EXPECT_EQ(CardPool::Start(options_, &book_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CardLifeTest, PinnedToItsCores) {
  options_.pin = true;
  StartReady();
  const CardInfo info = card().Info();
  ASSERT_EQ(info.cores.size(), 1u);
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(info.pid, sizeof set, &set), 0);
  EXPECT_EQ(CPU_COUNT(&set), 1);
  EXPECT_TRUE(CPU_ISSET(info.cores[0], &set));
}

TEST_F(CardLifeTest, CardThatNeverStartsBacksOff) {
  options_.driver_json = R"({"open": "exit"})";
  options_.backoff_first = absl::Milliseconds(20);
  options_.backoff_limit = absl::Milliseconds(80);
  const absl::Time start = absl::Now();
  StartPool();
  EXPECT_TRUE(pool_->WaitStarted(kPatience));
  ASSERT_TRUE(book_.Await([&] { return card().Info().restarts >= 6; }));
  // Five delays lie between six failures.
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(20 + 40 + 80 + 80 + 80));
  EXPECT_NE(card().state(), CardState::kReady);
  EXPECT_THAT(card().Info().last_error, HasSubstr("exited with code 3"));
  EXPECT_FALSE(card().TryAcquireSlot());
}

TEST_F(CardLifeTest, OpenErrorReachesLastError) {
  options_.driver_json = R"({"open": "fail"})";
  StartPool();
  EXPECT_TRUE(pool_->WaitStarted(kPatience));
  EXPECT_THAT(card().Info().last_error, HasSubstr("cannot open the card"));
}

TEST_F(CardLifeTest, UnknownDriver) {
  options_.groups = {{"nosuch", 1}};
  StartPool();
  EXPECT_TRUE(pool_->WaitStarted(kPatience));
  EXPECT_THAT(card().Info().last_error, HasSubstr("nosuch"));
}

TEST_F(CardLifeTest, NoHelloInTime) {
  options_.driver_json = R"({"open": "hang", "open_once": ")" + Path("once") + R"("})";
  options_.start_timeout = absl::Seconds(3);
  Touch("once");
  StartPool();
  ASSERT_TRUE(AwaitRestarts(card(), 1));
  EXPECT_THAT(card().Info().last_error, HasSubstr("did not say hello within 3s"));
}

TEST_F(CardLifeTest, LoadFailuresCarryTheDriversWords) {
  StartReady();
  const int pid = card().Info().pid;
  const absl::Status status = card().Load(Artifact(1, "bad", {{"load", "fail"}}));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr("fault:0"));
  EXPECT_THAT(card().Info().residents, IsEmpty());
  EXPECT_EQ(card().Info().pid, pid);
}

TEST_F(CardLifeTest, CrashOnLoadIsTheModelsFault) {
  StartReady();
  ASSERT_TRUE(card().Load(Echo()).ok());
  const absl::Status status = card().Load(Artifact(2, "bomb", {{"load", "crash"}}));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("the card died while loading bomb/1"),
                                      HasSubstr("signal 6")));
  ASSERT_TRUE(AwaitRestarts(card(), 1));
  EXPECT_THAT(card().Info().residents, ElementsAre("echo/1"));
  ExpectEcho(card(), 1);
  EXPECT_EQ(card().Info().restarts, 1);
}

TEST_F(CardLifeTest, HangingLoadIsCutOff) {
  options_.control_timeout = absl::Milliseconds(300);
  StartReady();
  const absl::Status status = card().Load(Artifact(1, "stuck", {{"load", "hang"}}));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("watchdog: loading stuck/1 took longer than 300ms"));
  EXPECT_TRUE(AwaitRestarts(card(), 1));
}

TEST_F(CardLifeTest, CrashOnWarm) {
  StartReady();
  ASSERT_TRUE(card().Load(Artifact(1, "cold", {{"warm", "crash"}})).ok());
  const std::vector<WarmShape> shapes = {{{"batch", 1}}};
  const absl::Status status = card().Warm(1, shapes);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("while warming cold/1"));
  ASSERT_TRUE(AwaitRestarts(card(), 1));  // what did not warm is not warmed again
  ExpectEcho(card(), 1);
}

TEST_F(CardLifeTest, WarmAndLoadMayBeUnderWayTogether) {
  StartReady();
  ASSERT_TRUE(card().Load(Artifact(1, "a", nlohmann::json::object())).ok());
  absl::Status load, warm;
  std::thread loader(
      [&] { load = card().Load(Artifact(2, "b", {{"load_gate", Path("go")}})); });
  std::thread warmer([&] {
    std::vector<WarmShape> shapes;
    for (int64_t batch = 1; batch <= 40; ++batch) shapes.push_back({{"batch", batch}});
    warm = card().Warm(1, shapes);
  });
  ExpectEcho(card(), 1);  // batches go on
  Touch("go");
  loader.join();
  warmer.join();
  EXPECT_TRUE(load.ok()) << load;
  EXPECT_TRUE(warm.ok()) << warm;
  EXPECT_EQ(card().Warm(77, std::vector<WarmShape>{{{"batch", 1}}}).code(),
            absl::StatusCode::kFailedPrecondition);
  // Both come back, the one warm as it was.
  kill(card().Info().pid, SIGKILL);
  ASSERT_TRUE(AwaitRestarts(card(), 1));
  ExpectEcho(card(), 1);
  ExpectEcho(card(), 2);
}

TEST_F(CardLifeTest, ConcurrentLoadsOfOneExecutableAreOne) {
  StartReady();
  const ExecutableSpec spec = Artifact(1, "a", {{"load_ms", 50}});
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { good.fetch_add(card().Load(spec).ok()); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 4);
  EXPECT_THAT(card().Info().residents, ElementsAre("a/1"));
}

TEST_F(CardLifeTest, Unload) {
  StartReady();
  ASSERT_TRUE(card().Load(Echo()).ok());
  EXPECT_TRUE(card().Unload(1).ok());
  EXPECT_EQ(card().Unload(1).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Run(card(), 1)->result.outcome, BatchOutcome::kNoExecutable);
  EXPECT_TRUE(card().Load(Echo()).ok());
  ExpectEcho(card(), 1);
}

TEST_F(CardLifeTest, ResidentThatKillsEveryNewProcessIsDropped) {
  StartReady();
  ASSERT_TRUE(card().Load(Echo(1)).ok());
  ASSERT_TRUE(card().Load(Artifact(2, "sleeper", nlohmann::json::object())).ok());
  WriteFaultArtifact(Path("sleeper"), {{"load", "crash"}});
  kill(card().Info().pid, SIGKILL);
  ASSERT_TRUE(AwaitRestarts(card(), 3)) << card().Info().last_error;
  EXPECT_EQ(card().Info().restarts, 3);  // the kill, and two tries
  const auto lost = book_.residents_lost();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_THAT(lost.at(2).message(), HasSubstr("killed the card 2 times"));
  EXPECT_THAT(card().Info().residents, ElementsAre("echo/1"));
  ExpectEcho(card(), 1);
  EXPECT_EQ(Run(card(), 2)->result.outcome, BatchOutcome::kNoExecutable);
}

TEST_F(CardLifeTest, ResidentThatFailsToReloadIsDroppedAtOnce) {
  StartReady();
  ASSERT_TRUE(card().Load(Artifact(2, "gone", nlohmann::json::object())).ok());
  std::filesystem::remove_all(Path("gone"));
  kill(card().Info().pid, SIGKILL);
  ASSERT_TRUE(AwaitRestarts(card(), 1));
  EXPECT_EQ(card().Info().restarts, 1);
  EXPECT_EQ(book_.residents_lost().count(2), 1u);
  EXPECT_THAT(card().Info().residents, IsEmpty());
}

TEST_F(CardLifeTest, LoadWaitsForACardThatRestarts) {
  options_.backoff_first = absl::Milliseconds(200);
  StartReady();
  kill(card().Info().pid, SIGKILL);
  ASSERT_TRUE(book_.Await([&] { return card().state() != CardState::kReady; }));
  EXPECT_TRUE(card().Load(Echo()).ok());
  EXPECT_EQ(card().Info().restarts, 1);
  ExpectEcho(card(), 1);
}

TEST_F(CardLifeTest, LoadDoesNotWaitForEver) {
  options_.driver_json = R"({"open": "exit"})";
  options_.start_timeout = absl::Milliseconds(300);
  StartPool();
  ASSERT_TRUE(pool_->WaitStarted(kPatience));
  const absl::Status status = card().Load(Echo());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("did not become READY"));
}

// A process with a broken control channel cannot be trusted with batches.
TEST_F(CardLifeTest, GarbageOnTheControlSocket) {
  StartReady();
  const char* const garbage[] = {"not JSON", R"({"id":12345,"code":0})", "{}"};
  int restarts = 0;
  for (const char* text : garbage) {
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, card().Info().pid, 0));
    ASSERT_GE(pidfd, 0);
    channel::ControlSocket socket(static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, 4, 0)));
    close(pidfd);
    ASSERT_GE(socket.fd(), 0);
    ASSERT_TRUE(socket.Send(text, absl::Seconds(1)).ok());
    ASSERT_TRUE(AwaitRestarts(card(), ++restarts));
    EXPECT_THAT(card().Info().last_error, HasSubstr("answers nonsense")) << text;
  }
}

TEST_F(CardLifeTest, ClosedControlSocket) {
  StartReady();
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, card().Info().pid, 0));
  channel::ControlSocket socket(static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, 4, 0)));
  close(pidfd);
  ASSERT_GE(socket.fd(), 0);
  socket.Shutdown();
  EXPECT_TRUE(AwaitRestarts(card(), 1));
}

TEST_F(CardLifeTest, StopLetsTheRunningBatchFinish) {
  options_.groups = {{"fault", 2}};
  StartReady();
  ASSERT_TRUE(card().Load(Artifact(1, "slow", {{"run_gate", Path("go")}})).ok());
  const int pids[] = {card(0).Info().pid, card(1).Info().pid};
  Ticket ticket;
  Submit(card(), AwaitSlot(card()), &ticket, 1);
  std::thread stopper([&] { pool_->Stop(kPatience); });
  ASSERT_TRUE(book_.Await([&] { return card().state() == CardState::kStopped; }));
  EXPECT_FALSE(card().TryAcquireSlot());
  Touch("go");
  stopper.join();
  ASSERT_TRUE(ticket.done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(ticket.result.outcome, BatchOutcome::kOk) << ticket.result.status;
  for (const int pid : pids) EXPECT_FALSE(ProcessExists(pid));
  EXPECT_EQ(card().Load(Echo(5)).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(card().state(), CardState::kStopped);
}

TEST_F(CardLifeTest, StopKillsWhatDoesNotFinish) {
  StartReady();
  ASSERT_TRUE(card().Load(Artifact(1, "hang", {{"run", "hang"}})).ok());
  const int pid = card().Info().pid;
  Ticket ticket;
  Submit(card(), AwaitSlot(card()), &ticket, 1);
  pool_->Stop(absl::Milliseconds(50));
  EXPECT_FALSE(ProcessExists(pid));
  ASSERT_TRUE(ticket.done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(ticket.result.outcome, BatchOutcome::kCardLost);
  EXPECT_EQ(ticket.completions, 1);
  EXPECT_TRUE(ticket.result.started);
  EXPECT_FALSE(ticket.result.suspect) << "a stop is nobody's fault: " << ticket.result.status;
}

TEST_F(CardLifeTest, SecondStopIsFast) {
  StartReady();
  ASSERT_TRUE(card().Load(Artifact(1, "hang", {{"run", "hang"}})).ok());
  Ticket ticket;
  Submit(card(), AwaitSlot(card()), &ticket, 1);
  std::thread patient([&] { pool_->Stop(absl::Hours(1)); });
  ASSERT_TRUE(book_.Await([&] { return card().state() == CardState::kStopped; }));
  pool_->Stop(absl::ZeroDuration());
  patient.join();
  EXPECT_EQ(ticket.completions, 1);
}

TEST_F(CardLifeTest, StopWhileStartingOrBackingOff) {
  options_.groups = {{"fault", 2}};
  options_.driver_json = R"({"open": "hang"})";
  StartPool();
  ASSERT_TRUE(book_.Await([&] { return card().Info().pid != 0; }));
  const int pid = card().Info().pid;
  pool_->Stop(absl::Hours(1));  // nothing to finish: at once
  EXPECT_FALSE(ProcessExists(pid));
  pool_.reset();
  options_.driver_json = R"({"open": "exit"})";
  options_.backoff_first = options_.backoff_limit = absl::Hours(1);
  StartPool();
  ASSERT_TRUE(pool_->WaitStarted(kPatience));
  pool_->Stop(absl::Hours(1));
  EXPECT_EQ(card().state(), CardState::kStopped);
}

TEST_F(CardLifeTest, ManyRestartsLeakNothing) {
  options_.backoff_first = options_.backoff_limit = absl::ZeroDuration();
  StartReady();
  ASSERT_TRUE(card().Load(Echo()).ok());
  std::set<int> pids;
  int files = 0;
  for (int round = 1; round <= 205; ++round) {
    Ticket ticket;
    Submit(card(), AwaitSlot(card()), &ticket, 1);
    pids.insert(card().Info().pid);
    kill(card().Info().pid, SIGKILL);
    ASSERT_TRUE(ticket.done.WaitForNotificationWithTimeout(kPatience));
    ASSERT_TRUE(AwaitRestarts(card(), round));
    if (round == 5) files = OpenFiles();
  }
  ExpectEcho(card(), 1);
  EXPECT_EQ(OpenFiles(), files);
  EXPECT_EQ(ChannelMappings(), 1);
  for (const int pid : pids) EXPECT_TRUE(pid == card().Info().pid || !ProcessExists(pid)) << pid;
  pool_.reset();
  EXPECT_EQ(ChannelMappings(), 0);
}

TEST(DescribeDriverTest, TellsWhatArtifactsMustBeMadeFor) {
  const auto described = DescribeDriver(BELFRY_CARD_BINARY, "fault");
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_EQ(described->at("driver"), "fault/1");
  EXPECT_EQ(described->count("arch"), 1u);
}

TEST(DescribeDriverTest, UnknownDriver) {
  const auto described = DescribeDriver(BELFRY_CARD_BINARY, "nosuch");
  EXPECT_EQ(described.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(described.status().message(), HasSubstr("nosuch"));
}

}  // namespace
}  // namespace belfry::cards
