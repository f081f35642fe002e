#include "server/base/checked.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace belfry {
namespace {

TEST(CheckedTest, RefusesOverflowAndNegatives) {
  EXPECT_EQ(CheckedMul(3, 4), 12);
  EXPECT_EQ(CheckedMul(INT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(CheckedMul(INT64_MAX, 2), std::nullopt);
  EXPECT_EQ(CheckedMul(-1, 2), std::nullopt);
  EXPECT_EQ(CheckedAdd(INT64_MAX, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd(1, -1), std::nullopt);
  EXPECT_EQ(CheckedAdd(1, 2), 3);
}

TEST(CheckedTest, ElementCount) {
  const auto count = [](std::vector<int64_t> dims) { return CheckedElementCount(dims); };
  EXPECT_EQ(count({}), 1);
  EXPECT_EQ(count({2, 3}), 6);
  EXPECT_EQ(count({2, 0}), 0);
  EXPECT_EQ(count({int64_t{1} << 32, int64_t{1} << 32}), std::nullopt);
  // A zero does not hide the overflow of the others.
  EXPECT_EQ(count({int64_t{1} << 32, 0, int64_t{1} << 32}), std::nullopt);
  EXPECT_EQ(count({0, -1}), std::nullopt);
}

}  // namespace
}  // namespace belfry
