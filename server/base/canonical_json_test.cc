#include "server/base/canonical_json.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace belfry {
namespace {

std::string Canonical(const std::string& text) {
  const auto out = CanonicalJson(nlohmann::json::parse(text));
  return out.ok() ? *out : std::string(out.status().message());
}

TEST(CanonicalJsonTest, SortsKeysAndDropsSpace) {
  EXPECT_EQ(Canonical(R"( {"b": [1, 2.0, null], "a": {"d": true, "c": ""}} )"),
            R"({"a":{"c":"","d":true},"b":[1,2.0,null]})");
}

TEST(CanonicalJsonTest, EscapesAsPythonDoes) {
  // The right sides are what json.dumps prints.
  EXPECT_EQ(Canonical("\"é\\u007f/\\u0001\\n\\\\\\\"\""), R"("\u00e9\u007f/\u0001\n\\\"")");
  EXPECT_EQ(Canonical("\"\xf0\x9f\x94\x94\""), R"("\ud83d\udd14")");
  EXPECT_EQ(Canonical("{\"\xef\xbf\xbd\":1,\"\xf0\x9f\x94\x94\":2,\"z\":3}"),
            R"({"z":3,"\ufffd":1,"\ud83d\udd14":2})");
}

TEST(CanonicalJsonTest, FloatsAsPythonReprs) {
  // value, repr(value)
  const std::pair<double, const char*> kCases[] = {
      {1e-5, "1e-05"},
      {1e-4, "0.0001"},
      {0.1, "0.1"},
      {1.0, "1.0"},
      {-2.5, "-2.5"},
      {123456789.125, "123456789.125"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {123456789012345680.0, "1.2345678901234568e+17"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {5e-324, "5e-324"},
      {0.30000000000000004, "0.30000000000000004"},
      {9007199254740993.0, "9007199254740992.0"},
      {1.5e-7, "1.5e-07"},
      {0.0, "0.0"},
      {-0.0, "-0.0"},
  };
  for (const auto& [value, repr] : kCases) EXPECT_EQ(FloatRepr(value), repr);
}

TEST(CanonicalJsonTest, KeepsWholeNumbersWhole) {
  EXPECT_EQ(Canonical("[18446744073709551615,-9223372036854775808,1,1.0]"),
            "[18446744073709551615,-9223372036854775808,1,1.0]");
}

TEST(CanonicalJsonTest, RefusesWhatHasNoCanonicalText) {
  EXPECT_FALSE(CanonicalJson(nlohmann::json("\xff")).ok());
  EXPECT_FALSE(CanonicalJson(nlohmann::json({{"\xff", 1}})).ok());
  EXPECT_FALSE(CanonicalJson(nlohmann::json(std::numeric_limits<double>::infinity())).ok());
  nlohmann::json deep = 1;
  for (int i = 0; i < 100; ++i) deep = nlohmann::json::array({deep});
  EXPECT_FALSE(CanonicalJson(deep).ok());
}

}  // namespace
}  // namespace belfry
