#include "server/cards/backoff.h"

#include <limits>

#include "gtest/gtest.h"

namespace belfry::cards {
namespace {

constexpr absl::Duration kFirst = absl::Milliseconds(100);
constexpr absl::Duration kLimit = absl::Seconds(30);

TEST(BackoffTest, DoublesUpToTheLimit) {
  EXPECT_EQ(RestartDelay(1, kFirst, kLimit), absl::Milliseconds(100));
  EXPECT_EQ(RestartDelay(2, kFirst, kLimit), absl::Milliseconds(200));
  EXPECT_EQ(RestartDelay(3, kFirst, kLimit), absl::Milliseconds(400));
  EXPECT_EQ(RestartDelay(9, kFirst, kLimit), absl::Milliseconds(25600));
  EXPECT_EQ(RestartDelay(10, kFirst, kLimit), kLimit);
  EXPECT_EQ(RestartDelay(std::numeric_limits<int>::max(), kFirst, kLimit), kLimit);
}

TEST(BackoffTest, LimitBelowFirstWins) {
  EXPECT_EQ(RestartDelay(1, absl::Seconds(5), absl::Seconds(2)), absl::Seconds(2));
}

TEST(BackoffTest, ZeroFirstMeansNoDelayAndEnds) {
  EXPECT_EQ(RestartDelay(std::numeric_limits<int>::max(), absl::ZeroDuration(), kLimit),
            absl::ZeroDuration());
}

TEST(BackoffTest, FailuresCountUpUntilAMinuteOfGoodService) {
  EXPECT_EQ(FailuresAfter(0, absl::ZeroDuration()), 1);
  EXPECT_EQ(FailuresAfter(1, absl::Seconds(59)), 2);
  EXPECT_EQ(FailuresAfter(7, absl::Minutes(1)), 1);
  EXPECT_EQ(FailuresAfter(std::numeric_limits<int>::max(), absl::ZeroDuration()),
            std::numeric_limits<int>::max());
}

}  // namespace
}  // namespace belfry::cards
