#include "server/artifacts/child.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/artifacts/testing.h"

namespace belfry::artifacts {
namespace {

using ::testing::HasSubstr;
using Reason = ChildOutcome::Reason;

// Each test runs with a namespace (where the kernel allows one) and without.
class ChildTest : public ::testing::TestWithParam<bool> {
 protected:
  ChildSpec Shell(const std::string& script) {
    ChildSpec spec;
    spec.argv = {"/bin/sh", "-c", script};
    spec.env = {"PATH=/usr/bin:/bin"};
    spec.folder = folder_.path();
    spec.try_namespace = GetParam();
    return spec;
  }
  ChildOutcome Run(const ChildSpec& spec, std::function<bool()> cancelled = nullptr) {
    auto outcome = RunChild(spec, {[this](std::string_view text) { out_ += text; },
                                   [this](std::string_view text) { err_ += text; },
                                   std::move(cancelled)});
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? *outcome : ChildOutcome();
  }
  // Processes on the host whose command line holds 'mark'.
  static int CountRunning(const std::string& mark) {
    int count = 0;
    const std::vector<std::string> names = FileSystem::Real().List("/proc").value();
    for (const std::string& name : names) {
      if (name[0] < '0' || name[0] > '9') continue;
      const std::string line = ReadText(absl::StrCat("/proc/", name, "/cmdline"));
      count += line.find(mark) != std::string::npos;
    }
    return count;
  }
  // A number of seconds that no other test sleeps.
  static std::string Mark() {
    static int next = 0;
    return absl::StrCat("77", getpid(), ".", ++next);
  }

  TempFolder folder_;
  std::string out_, err_;
};

INSTANTIATE_TEST_SUITE_P(Namespace, ChildTest, ::testing::Bool());

TEST_P(ChildTest, GivesOutputAndExitCode) {
  const ChildOutcome outcome = Run(Shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(outcome.reason, Reason::kExited);
  EXPECT_EQ(outcome.value, 3);
  EXPECT_EQ(out_, "out\n");
  EXPECT_EQ(err_, "err\n");
}

TEST_P(ChildTest, LargeOutputComesWhole) {
  Run(Shell("head -c 3000000 /dev/zero | tr '\\0' x"));
  EXPECT_EQ(out_.size(), 3000000u);
}

TEST_P(ChildTest, TellsTheSignal) {
  const ChildOutcome outcome = Run(Shell("kill -SEGV $$"));
  EXPECT_EQ(outcome.reason, Reason::kSignalled);
  EXPECT_EQ(outcome.value, SIGSEGV);
}

TEST_P(ChildTest, TellsWhatCannotStart) {
  ChildSpec spec = Shell("");
  spec.argv = {"/no/such/program"};
  const ChildOutcome outcome = Run(spec);
  EXPECT_EQ(outcome.reason, Reason::kCannotStart);
  EXPECT_EQ(outcome.value, ENOENT);
}

TEST_P(ChildTest, SeesOnlyWhatItIsGiven) {
  setenv("BELFRY_SECRET", "x", 1);
  const int leaked = open("/dev/null", O_RDONLY);  // without close-on-exec
  ASSERT_GE(leaked, 3);
  ChildSpec spec = Shell("env; pwd; cat; ls /proc/self/fd");
  spec.env.push_back("GIVEN=1");
  Run(spec);
  close(leaked);
  EXPECT_THAT(out_, HasSubstr("GIVEN=1"));
  EXPECT_THAT(out_, ::testing::Not(HasSubstr("BELFRY_SECRET")));
  EXPECT_THAT(out_, HasSubstr(folder_.path()));
  EXPECT_THAT(out_, ::testing::EndsWith("0\n1\n2\n3\n"));  // 3: ls reads the folder
}

TEST_P(ChildTest, RunsAtLowPriority) {
  ChildSpec spec = Shell("nice; cat /proc/self/oom_score_adj; chrt -p $$ 2>/dev/null || true");
  spec.low_priority = true;
  Run(spec);
  EXPECT_THAT(out_, ::testing::StartsWith("19\n1000\n"));
}

TEST_P(ChildTest, TimeoutKillsEverythingWhateverItsSession) {
  const std::string mark = Mark();
  // Children in the group, in a session of their own, and orphaned twice.
  ChildSpec spec = Shell(absl::StrCat("trap '' TERM; sleep ", mark, " & setsid sleep ", mark,
                                      " & (setsid sh -c 'sleep ", mark, " & sleep ", mark,
                                      "' &) ; echo ready; sleep ", mark));
  spec.timeout = absl::Milliseconds(500);
  const ChildOutcome outcome = Run(spec);
  EXPECT_EQ(outcome.reason, Reason::kTimeout);
  EXPECT_EQ(out_, "ready\n");
  EXPECT_EQ(CountRunning(mark), 0);
}

TEST_P(ChildTest, CancelKills) {
  const std::string mark = Mark();
  const ChildOutcome outcome =
      Run(Shell(absl::StrCat("setsid sleep ", mark, " & echo ready; sleep ", mark)),
          [this] { return !out_.empty(); });
  EXPECT_EQ(outcome.reason, Reason::kCancelled);
  EXPECT_EQ(CountRunning(mark), 0);
}

TEST_P(ChildTest, NothingOutlivesAGoodEnd) {
  const std::string mark = Mark();
  const ChildOutcome outcome =
      Run(Shell(absl::StrCat("setsid sleep ", mark, " >/dev/null & exit 0")));
  EXPECT_EQ(outcome.reason, Reason::kExited);
  EXPECT_EQ(outcome.value, 0);
  EXPECT_EQ(CountRunning(mark), 0);
}

TEST_P(ChildTest, ManyOrphansInSessionsOfTheirOwnAreKilled) {
  const std::string mark = Mark();
  // Each process starts two in new sessions and ends, seven generations deep.
  WriteText(folder_ / "breed.sh",
            absl::StrCat("[ $1 -gt 0 ] || { echo ready; exec sleep ", mark, "; }\n",
                         "setsid sh breed.sh $(($1-1)) &\nsetsid sh breed.sh $(($1-1)) &\n"));
  const ChildOutcome outcome =
      Run(Shell("sh breed.sh 7; sleep 1000"), [this] { return out_.size() >= 128 * 6; });
  EXPECT_EQ(outcome.reason, Reason::kCancelled);
  EXPECT_EQ(CountRunning(mark), 0);
}

TEST_P(ChildTest, ProcessesThatNeverStopForkingAreKilled) {
  const std::string mark = Mark();
  // A chain: each starts the next in a new session and ends at once.
  WriteText(folder_ / "chain.sh", absl::StrCat("# ", mark, "\necho .\nsetsid sh chain.sh ", mark,
                                               " &\n"));
  const ChildOutcome outcome = Run(Shell(absl::StrCat("sh chain.sh ", mark, "; sleep 1000")),
                                   [this] { return out_.size() >= 40; });
  EXPECT_EQ(outcome.reason, Reason::kCancelled);
  EXPECT_EQ(CountRunning(mark), 0);
}

TEST_P(ChildTest, DiesWithItsParent) {
  const std::string mark = Mark();
  // A parent that is killed while its child runs.
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(ready[0]);
    ChildSpec spec =
        Shell(absl::StrCat("setsid sleep ", mark, " & echo ready; sleep ", mark));
    auto outcome = RunChild(spec, {[&ready](std::string_view) {
                                     if (write(ready[1], "x", 1) != 1) _exit(2);
                                   },
                                   nullptr, nullptr});
    _exit(outcome.ok() ? 0 : 1);
  }
  close(ready[1]);
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_GE(CountRunning(mark), 2);
  kill(parent, SIGKILL);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  // The supervisor is nobody's child here now: wait for the processes to go.
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (CountRunning(mark) > 0 && absl::Now() < limit) std::this_thread::yield();
  EXPECT_EQ(CountRunning(mark), 0);
  close(ready[0]);
}

TEST_P(ChildTest, NoZombieStays) {
  Run(Shell("exit 0"));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

}  // namespace
}  // namespace belfry::artifacts
