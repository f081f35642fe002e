#include "device/manifest/expression.h"

#include "gtest/gtest.h"

namespace belfry {
namespace {

const SymbolValues kSymbols = {{"batch", 4}, {"seq", 10}, {"s0", -3}, {"big", INT64_MAX}};

TEST(ExpressionTest, Evaluates) {
  const std::pair<const char*, int64_t> cases[] = {
      {"7", 7},           {"batch", 4},          {"2*seq", 20},
      {"seq*2 + 1", 21},  {"1 + 2*3", 7},        {"(1 + 2) * 3", 9},
      {"seq//3", 3},      {"s0//2", -2},         {"-s0", 3},
      {"10-3-2", 5},      {"((seq))", 10},       {"(seq + 7)//8*8", 16},
      {"2*-seq", -20},    {" batch ", 4},
  };
  for (const auto& [text, expected] : cases) {
    const auto value = EvaluateExpression(text, kSymbols);
    ASSERT_TRUE(value.ok()) << text << ": " << value.status();
    EXPECT_EQ(*value, expected) << text;
  }
}

TEST(ExpressionTest, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", " ", "2*", "*2", "(1", "1)", "foo", "1 2", "seq/2", "2.5", "seq//0",
                           "big + 1", "big*2", "-(-9223372036854775807 - 1)", "Max(1, seq)",
                           "99999999999999999999", "1;2", "seq%2"}) {
    EXPECT_EQ(EvaluateExpression(text, kSymbols).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_FALSE(EvaluateExpression(std::string(100000, '('), kSymbols).ok());
  EXPECT_FALSE(EvaluateExpression(std::string(100000, '-'), kSymbols).ok());
}

TEST(ExpressionTest, ASizeIsNotNegative) {
  EXPECT_EQ(*EvaluateDim({.kind = Dim::Kind::kFixed, .size = 3, .text = ""}, kSymbols), 3);
  EXPECT_EQ(*EvaluateDim({.kind = Dim::Kind::kSymbol, .size = 0, .text = "seq"}, kSymbols), 10);
  EXPECT_FALSE(
      EvaluateDim({.kind = Dim::Kind::kExpression, .size = 0, .text = "batch - 5"}, kSymbols).ok());
}

}  // namespace
}  // namespace belfry
