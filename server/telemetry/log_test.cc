#include "server/telemetry/log.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::telemetry {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override {
    SetLogFormat(LogFormat::kText);
    SetLogLevel(LogLevel::kInfo);
  }
  template <typename F>
  std::string Capture(F log) {
    ::testing::internal::CaptureStderr();
    log();
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(LogTest, TextLineIsForPeople) {
  const std::string line = Capture(
      [] { LogWarning("card lost", {{"card", "cpu:0"}, {"reason", "exit code 1"}, {"n", 3}}); });
  EXPECT_THAT(line, MatchesRegex("2[0-9-]+T[0-9:.]+Z warning card lost card=cpu:0 "
                                 "reason=\"exit code 1\" n=3\n"));
}

TEST_F(LogTest, JsonKeepsTypes) {
  SetLogFormat(LogFormat::kJson);
  const std::string line = Capture([] {
    LogError("e", {{"s", "a\"b\\c"},
                   {"n", 1.5},
                   {"b", true},
                   {"inf", std::numeric_limits<double>::infinity()}});
  });
  EXPECT_THAT(line, HasSubstr(R"("level":"error","event":"e")"));
  // The backslash is escaped by Sanitize, and that again by JSON.
  EXPECT_THAT(line, HasSubstr(R"("s":"a\"b\\\\c","n":1.5,"b":true,"inf":"inf"})"));
}

TEST_F(LogTest, HostileBytesStayOnOneLineAndPrintable) {
  std::string hostile;
  for (int i = 0; i < 256; ++i) hostile += static_cast<char>(i);
  for (LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    SetLogFormat(format);
    const std::string line = Capture([&] { LogInfo("x", {{"v", hostile}}); });
    ASSERT_FALSE(line.empty());
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    for (unsigned char c : line.substr(0, line.size() - 1)) {
      EXPECT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
    }
  }
}

TEST_F(LogTest, LevelCutsOff) {
  SetLogLevel(LogLevel::kError);
  EXPECT_EQ(Capture([] { LogWarning("no"); }), "");
  EXPECT_NE(Capture([] { LogError("yes"); }), "");
}

TEST(SanitizeTest, EscapesAndCuts) {
  EXPECT_EQ(Sanitize("plain é"), "plain \\xc3\\xa9");
  EXPECT_EQ(Sanitize("a\nb\\"), "a\\nb\\\\");
  EXPECT_EQ(Sanitize("abcdef", 4), "abcd...(2 more bytes)");
  EXPECT_LT(Sanitize(std::string(1 << 20, '\0')).size(), 5000u);
}

}  // namespace
}  // namespace belfry::telemetry
