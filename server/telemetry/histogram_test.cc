#include "server/telemetry/histogram.h"

#include <limits>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/telemetry/model_metrics.h"

namespace belfry::telemetry {
namespace {

constexpr double kBounds[] = {1, 2, 4};

TEST(HistogramTest, BoundBelongsToItsBucket) {
  Histogram h(kBounds);
  h.Observe(1);
  h.Observe(1.5);
  h.Observe(4);
  h.Observe(100);
  const auto read = h.Read();
  EXPECT_EQ(read.cumulative, (std::vector<uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(read.count, 4u);
  EXPECT_DOUBLE_EQ(read.sum, 106.5);
}

TEST(HistogramTest, SumNeverShrinksAndNanIsDropped) {
  Histogram h(kBounds);
  h.Observe(-5);
  h.Observe(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(h.Read().count, 1u);
  EXPECT_EQ(h.Read().sum, 0);
}

TEST(HistogramTest, QuantileInterpolates) {
  Histogram h(kBounds);
  EXPECT_EQ(h.Read().Quantile(0.5, kBounds), 0);
  for (int i = 0; i < 10; ++i) h.Observe(1.5);
  EXPECT_DOUBLE_EQ(h.Read().Quantile(0.5, kBounds), 1.5);
  EXPECT_DOUBLE_EQ(h.Read().Quantile(1, kBounds), 2);
  h.Observe(1000);
  EXPECT_DOUBLE_EQ(h.Read().Quantile(1, kBounds), 4);
}

TEST(HistogramTest, NothingIsLostBetweenThreads) {
  Histogram h(LatencyBuckets());
  Counter counter;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        h.Observe(0.5);
        counter.Add();
      }
    });
  }
  uint64_t last = 0;
  for (int i = 0; i < 1000; ++i) {  // a reader beside the writers
    const uint64_t now = h.Read().count;
    EXPECT_GE(now, last);
    last = now;
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(h.Read().count, 160000u);
  EXPECT_DOUBLE_EQ(h.Read().sum, 80000);
  EXPECT_EQ(counter.Value(), 160000u);
}

TEST(HistogramTest, StandardBoundsAscendAndFit) {
  for (auto bounds : {LatencyBuckets(), BatchBuckets()}) {
    ASSERT_LE(bounds.size(), Histogram::kMaxBuckets);
    for (size_t i = 1; i < bounds.size(); ++i) EXPECT_LT(bounds[i - 1], bounds[i]);
  }
  EXPECT_EQ(LatencyBuckets().front(), 0.0001);
  EXPECT_EQ(LatencyBuckets().back(), 10);
}

TEST(GaugeTokenTest, HoldsTheGaugeOnceWhereverItMoves) {
  std::atomic<int64_t> gauge{0};
  {
    GaugeToken a(&gauge, 3);
    GaugeToken b(std::move(a));
    EXPECT_EQ(gauge, 3);
    GaugeToken c(&gauge, 1);
    c = std::move(b);
    EXPECT_EQ(gauge, 3);
    c.Drop();
    c.Drop();
    EXPECT_EQ(gauge, 0);
  }
  EXPECT_EQ(gauge, 0);
}

}  // namespace
}  // namespace belfry::telemetry
