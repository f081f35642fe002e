#include "device/card/options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::card {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OptionsTest, ReadsAllFlags) {
  const auto o = ParseOptions({"--driver", "spyre-sim", "--index=3", "--threads", "2",
                               "--channel-fd", "3", "--control-fd=4", "--cores", "0,2-4",
                               "--memory", "5000000000", "--driver-json", R"({"a":1})",
                               "--driver-dir", "/d", "--spin-us", "20"});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->mode, Options::Mode::kServe);
  EXPECT_EQ(o->driver, "spyre-sim");
  EXPECT_EQ(o->index, 3);
  EXPECT_EQ(o->threads, 2);
  EXPECT_EQ(o->channel_fd, 3);
  EXPECT_EQ(o->control_fd, 4);
  EXPECT_THAT(o->cores, ElementsAre(0, 2, 3, 4));
  EXPECT_EQ(o->memory_bytes, 5000000000u);
  EXPECT_EQ(o->driver_json, R"({"a":1})");
  EXPECT_EQ(o->driver_dir, "/d");
  EXPECT_EQ(o->spin, absl::Microseconds(20));
}

TEST(OptionsTest, NamesTheFlagThatIsWrong) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--driver", "../x", "--describe"}, "--driver is '../x'"},
      {{"--driver", "", "--describe"}, "--driver is ''"},
      {{"--describe"}, "--driver is missing"},
      {{"--driver", "cpu", "--channel-fd", "3"}, "--control-fd is missing"},
      {{"--driver", "cpu", "--index", "-1"}, "--index is '-1'"},
      {{"--driver", "cpu", "--threads", "0"}, "--threads is '0'"},
      {{"--driver", "cpu", "--cores", "3-1"}, "--cores is '3-1'"},
      {{"--driver", "cpu", "--cores", ""}, "--cores is ''"},
      {{"--driver", "cpu", "--cores", "99999"}, "--cores"},
      {{"--driver", "cpu", "--memory", "1G"}, "--memory is '1G'"},
      {{"--driver", "cpu", "--driver-json", "[]"}, "--driver-json is '[]'"},
      {{"--driver"}, "--driver has no value"},
      {{"--what", "x"}, "unknown flag '--what'"},
      {{"stray"}, "unexpected argument 'stray'"},
  };
  for (const auto& [args, text] : cases) {
    const auto o = ParseOptions(args);
    EXPECT_TRUE(absl::IsInvalidArgument(o.status()));
    EXPECT_THAT(std::string(o.status().message()), HasSubstr(text));
  }
}

}  // namespace
}  // namespace belfry::card
