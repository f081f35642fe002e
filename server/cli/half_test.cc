#include "server/cli/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace belfry::cli {
namespace {

TEST(HalfTest, EveryFp16ComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = FromFp16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FromFp16(ToFp16(value))));
    } else {
      ASSERT_EQ(ToFp16(value), bits) << value;
    }
  }
}

TEST(HalfTest, Fp16RoundsToNearestEven) {
  EXPECT_EQ(ToFp16(1.0f + 1.0f / 2048), 0x3C00);      // halfway: to even
  EXPECT_EQ(ToFp16(1.0f + 3.0f / 2048), 0x3C02);      // halfway: to even
  EXPECT_EQ(ToFp16(1.0f + 1.1f / 2048), 0x3C01);
  EXPECT_EQ(ToFp16(2047.5f), 0x6800);                 // carries into the exponent
  EXPECT_EQ(ToFp16(65504.0f), 0x7BFF);                // the largest
  EXPECT_EQ(ToFp16(65519.0f), 0x7BFF);
  EXPECT_EQ(ToFp16(65520.0f), 0x7C00);                // infinity
  EXPECT_EQ(ToFp16(-INFINITY), 0xFC00);
  EXPECT_EQ(ToFp16(std::ldexp(1.0f, -24)), 0x0001);   // the smallest
  EXPECT_EQ(ToFp16(std::ldexp(1.0f, -25)), 0x0000);   // halfway to nothing: to even
  EXPECT_EQ(ToFp16(-0.0f), 0x8000);
}

TEST(HalfTest, Bf16RoundsToNearestEven) {
  EXPECT_EQ(ToBf16(1.0f), 0x3F80);
  EXPECT_EQ(ToBf16(1.0f + 1.0f / 256), 0x3F80);
  EXPECT_EQ(ToBf16(1.0f + 3.0f / 256), 0x3F82);
  EXPECT_TRUE(std::isnan(FromBf16(ToBf16(NAN))));
  EXPECT_EQ(FromBf16(ToBf16(-INFINITY)), -INFINITY);
  EXPECT_EQ(FromBf16(0x4049), 3.140625f);
}

}  // namespace
}  // namespace belfry::cli
