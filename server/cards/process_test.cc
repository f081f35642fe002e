#include "server/cards/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::cards {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(60);

SpawnRequest Shell(const std::string& script, std::vector<SpawnFd> fds = {}) {
  return {{"/bin/sh", "-c", script}, std::move(fds)};
}

std::string ReadToEnd(int fd) {
  std::string out;
  char buffer[512];
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) out.append(buffer, n);
  return out;
}

TEST(ProcessTest, TellsHowItEnded) {
  auto exits = ChildProcess::Spawn(Shell("exit 3"));
  ASSERT_TRUE(exits.ok()) << exits.status();
  EXPECT_EQ((*exits)->Reap(kLong), "exited with code 3");

  auto waits = ChildProcess::Spawn(Shell("sleep 1000"));
  ASSERT_TRUE(waits.ok()) << waits.status();
  EXPECT_EQ((*waits)->Reap(absl::ZeroDuration()), std::nullopt);
  (*waits)->Kill();
  EXPECT_EQ((*waits)->Reap(kLong), "killed by signal 9 (Killed)");
}

TEST(ProcessTest, MissingProgramIsAnErrorWithItsName) {
  const auto process = ChildProcess::Spawn({{"/nonexistent/belfry-card"}, {}});
  EXPECT_EQ(process.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(process.status().message(), HasSubstr("/nonexistent/belfry-card"));
}

TEST(ProcessTest, DestructionKillsAndReaps) {
  pid_t pid;
  {
    auto process = ChildProcess::Spawn(Shell("sleep 1000"));
    ASSERT_TRUE(process.ok());
    pid = (*process)->pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(ProcessTest, ChildGetsExactlyTheGivenDescriptors) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  // Leaks into the child unless it is closed there: not close-on-exec.
  const int stray = open("/dev/null", O_RDONLY);
  ASSERT_GE(stray, 0);
  auto process = ChildProcess::Spawn(
      {{"/bin/ls", "/proc/self/fd"}, {{fds[1], 1}, {fds[1], 2}, {fds[1], 3}}});
  ASSERT_TRUE(process.ok()) << process.status();
  close(fds[1]);
  // 4 is the folder that ls reads.
  EXPECT_EQ(ReadToEnd(fds[0]), "0\n1\n2\n3\n4\n");
  close(fds[0]);
  close(stray);
  EXPECT_EQ((*process)->Reap(kLong), "exited with code 0");
}

// Sources that are each other's targets must not be overwritten.
TEST(ProcessTest, SourcesMayCollideWithTargets) {
  int a[2], b[2];
  ASSERT_EQ(pipe2(a, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(b, O_CLOEXEC), 0);
  const int low = std::min(a[1], b[1]), high = std::max(a[1], b[1]);
  std::vector<SpawnFd> targets;
  for (int fd = 1; fd <= high; ++fd) targets.push_back({a[1], fd});
  targets[low - 1].source = high;
  targets[high - 1].source = low;
  auto process = ChildProcess::Spawn(
      Shell("echo low >/proc/self/fd/" + std::to_string(low) + "; echo high >/proc/self/fd/" +
                std::to_string(high),
            targets));
  ASSERT_TRUE(process.ok()) << process.status();
  close(a[1]);
  close(b[1]);
  const bool a_is_low = a[1] == low;
  EXPECT_EQ(ReadToEnd(a[0]), a_is_low ? "high\n" : "low\n");
  EXPECT_EQ(ReadToEnd(b[0]), a_is_low ? "low\n" : "high\n");
  close(a[0]);
  close(b[0]);
}

// A grandchild holds the pipe open; it must end with the leader.
TEST(ProcessTest, TheWholeGroupDies) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  auto process = ChildProcess::Spawn(Shell("sleep 1000 & exit 0", {{fds[1], 1}}));
  ASSERT_TRUE(process.ok()) << process.status();
  close(fds[1]);
  EXPECT_EQ((*process)->Reap(kLong), "exited with code 0");
  EXPECT_EQ(ReadToEnd(fds[0]), "");  // returns only at the end of the stream
  close(fds[0]);
}

}  // namespace
}  // namespace belfry::cards
