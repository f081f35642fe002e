#include "server/serving/quarantine.h"

#include "gtest/gtest.h"

namespace belfry::serving {
namespace {

constexpr MonoNs kSecond = 1'000'000'000;

TEST(CrashWindowTest, TheLimitWithinTheWindowIsTooMany) {
  CrashWindow window(3, 600 * kSecond);
  EXPECT_FALSE(window.Add(1 * kSecond));
  EXPECT_FALSE(window.Add(2 * kSecond));
  EXPECT_TRUE(window.Add(3 * kSecond));
  EXPECT_EQ(window.count(), 3);
}

TEST(CrashWindowTest, OldCrashesAreForgiven) {
  CrashWindow window(3, 600 * kSecond);
  EXPECT_FALSE(window.Add(0));
  EXPECT_FALSE(window.Add(1 * kSecond));
  // The first is exactly a window old: it no longer counts.
  EXPECT_FALSE(window.Add(600 * kSecond));
  EXPECT_EQ(window.count(), 2);
  EXPECT_TRUE(window.Add(600 * kSecond + 1));
}

TEST(CrashWindowTest, ASteadyTrickleNeverAddsUp) {
  CrashWindow window(3, 600 * kSecond);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(window.Add(i * 301 * kSecond)) << i;
}

TEST(CrashWindowTest, ALimitOfOneTakesTheFirst) {
  CrashWindow window(1, 600 * kSecond);
  EXPECT_TRUE(window.Add(5));
  EXPECT_EQ(window.count(), 1);
}

TEST(CrashWindowTest, KeepsNoMoreThanTheLimit) {
  CrashWindow window(2, 600 * kSecond);
  for (int i = 0; i < 100; ++i) window.Add(i);
  EXPECT_EQ(window.count(), 2);
}

TEST(CrashWindowTest, ResetForgetsAll) {
  CrashWindow window(2, 600 * kSecond);
  window.Add(1);
  window.Reset();
  EXPECT_EQ(window.count(), 0);
  EXPECT_FALSE(window.Add(2));
}

}  // namespace
}  // namespace belfry::serving
