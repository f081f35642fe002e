#include "server/cli/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "server/cli/exit_code.h"
#include "server/cli/verbs.h"

namespace belfry::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

struct Outcome {
  int code;
  std::string out, err;
};

Outcome Belfry(const std::vector<std::string>& args) {
  CaptureStdout();
  CaptureStderr();
  const int code = RunCommand(args);
  std::fflush(nullptr);
  return {code, GetCapturedStdout(), GetCapturedStderr()};
}

// Nobody listens on port 1.
const std::vector<std::string> kNowhere = {"--server", "127.0.0.1:1", "--admin", "127.0.0.1:1",
                                           "--timeout", "2s"};

TEST(CommandTest, HelpTellsEveryVerbAndExitCode) {
  const auto help = Belfry({"--help"});
  EXPECT_EQ(help.code, kOk);
  EXPECT_THAT(help.out, HasSubstr("Exit codes: 0 done"));
  for (const auto& verb : AllVerbs()) {
    EXPECT_THAT(help.out, HasSubstr("  " + verb->name() + " "));
    const auto own = Belfry({verb->name(), "--help"});
    EXPECT_EQ(own.code, kOk) << verb->name();
    EXPECT_THAT(own.out, HasSubstr("usage: belfry " + verb->name()));
    EXPECT_THAT(own.out, HasSubstr("--help"));
  }
}

TEST(CommandTest, WrongUsageEndsWithTwoAndSaysWhatIsRight) {
  const auto verb = Belfry({"modles"});
  EXPECT_EQ(verb.code, kUsage);
  EXPECT_THAT(verb.err, HasSubstr("did you mean models"));
  EXPECT_TRUE(verb.out.empty());
  EXPECT_EQ(Belfry({}).code, kUsage);
  EXPECT_THAT(Belfry({"models", "--jsn"}).err, HasSubstr("did you mean --json"));
  EXPECT_THAT(Belfry({"show"}).err, HasSubstr("usage: belfry show NAME [VERSION]"));
  EXPECT_EQ(Belfry({"show", "a", "b", "c"}).code, kUsage);
  EXPECT_THAT(Belfry({"show", "a", "latest"}).err, HasSubstr("got 'latest'"));
  EXPECT_EQ(Belfry({"bench", "m", "--concurrency", "0"}).code, kUsage);
  EXPECT_EQ(Belfry({"compile", "m.pt2"}).code, kUsage) << "--out is missing";
}

TEST(CommandTest, NoServerEndsWithThree) {
  for (const std::string& verb : {"models", "cards", "health", "metadata", "drain"}) {
    std::vector<std::string> args = {verb};
    args.insert(args.end(), kNowhere.begin(), kNowhere.end());
    const auto outcome = Belfry(args);
    EXPECT_EQ(outcome.code, kUnreachable) << verb;
    EXPECT_THAT(outcome.err, HasSubstr("no server answers at 127.0.0.1:1"));
  }
}

TEST(CommandTest, FlagsMayStandBeforeTheVerb) {
  std::vector<std::string> args = kNowhere;
  args.push_back("models");
  EXPECT_EQ(Belfry(args).code, kUnreachable);
}

TEST(CommandTest, AddressesComeFromTheEnvironmentToo) {
  setenv("BELFRY_ADMIN", "127.0.0.1:2", 1);
  const auto outcome = Belfry({"models", "--timeout", "2s"});
  unsetenv("BELFRY_ADMIN");
  EXPECT_THAT(outcome.err, HasSubstr("127.0.0.1:2"));
}

TEST(CommandTest, AFileThatIsNotThereEndsWithFive) {
  const auto outcome = Belfry({"compile", "/nowhere/model.pt2", "--out", "/nowhere"});
  EXPECT_EQ(outcome.code, kLocal);
  EXPECT_THAT(outcome.err, HasSubstr("/nowhere/model.pt2"));
}

}  // namespace
}  // namespace belfry::cli
