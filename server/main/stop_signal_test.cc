#include "server/main/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "absl/synchronization/notification.h"

namespace belfry {
namespace {

TEST(StopSignalTest, FirstSignalStopsSecondIsTold) {
  BlockStopSignals();
  absl::Notification second;
  StopSignal stop([&] { second.Notify(); });
  kill(getpid(), SIGTERM);
  EXPECT_EQ(stop.Wait(), "SIGTERM");
  EXPECT_FALSE(second.HasBeenNotified());
  kill(getpid(), SIGINT);
  second.WaitForNotification();
}

TEST(StopSignalTest, ARequestCountsAsTheFirst) {
  BlockStopSignals();
  absl::Notification second;
  StopSignal stop([&] { second.Notify(); });
  stop.Request("an admin");
  stop.Request("another");
  EXPECT_EQ(stop.Wait(), "an admin");
  kill(getpid(), SIGTERM);
  second.WaitForNotification();
}

TEST(StopSignalTest, EndsWithoutASignal) {
  StopSignal stop([] {});
}

}  // namespace
}  // namespace belfry
