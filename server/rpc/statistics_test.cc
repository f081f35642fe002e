#include "server/rpc/statistics.h"

#include <gtest/gtest.h>

#include "server/rpc/testing.h"

namespace belfry::rpc {
namespace {

using serving::VersionState;

TEST(StatisticsTest, AddsUpWhatWasRecorded) {
  telemetry::ModelMetrics metrics;
  metrics.requests[0].Add(3);
  metrics.requests[4].Add(2);
  metrics.requests[3].Add(1);
  metrics.rows.Add(12);
  metrics.executions.Add(2);
  metrics.request_seconds.Observe(0.5);
  metrics.request_seconds.Observe(0.25);
  metrics.queue_seconds.Observe(0.125);
  metrics.copy_in_seconds.Observe(0.001);
  metrics.compute_seconds.Observe(0.01);
  metrics.copy_out_seconds.Observe(0.002);
  metrics.batch_rows.Observe(1);
  metrics.batch_rows.Observe(2);
  metrics.batch_rows.Observe(2);
  metrics.batch_rows.Observe(7);

  inference::ModelStatistics out;
  FillStatistics(metrics, &out);
  EXPECT_EQ(out.inference_count(), 12u);
  EXPECT_EQ(out.execution_count(), 2u);
  EXPECT_EQ(out.inference_stats().success().count(), 3u);
  EXPECT_EQ(out.inference_stats().success().ns(), 750'000'000u);
  EXPECT_EQ(out.inference_stats().fail().count(), 3u);
  EXPECT_EQ(out.inference_stats().queue().ns(), 125'000'000u);
  EXPECT_EQ(out.inference_stats().compute_input().ns(), 1'000'000u);
  EXPECT_EQ(out.inference_stats().compute_infer().ns(), 10'000'000u);
  EXPECT_EQ(out.inference_stats().compute_output().ns(), 2'000'000u);
  ASSERT_EQ(out.batch_stats_size(), 3);
  EXPECT_EQ(out.batch_stats(0).batch_size(), 1u);
  EXPECT_EQ(out.batch_stats(0).compute_infer().count(), 1u);
  EXPECT_EQ(out.batch_stats(1).batch_size(), 2u);
  EXPECT_EQ(out.batch_stats(1).compute_infer().count(), 2u);
  EXPECT_EQ(out.batch_stats(2).batch_size(), 8u);
}

class DescribeStatisticsTest : public ::testing::Test {
 protected:
  DescribeStatisticsTest() {
    catalog_.Put(Entry("a", "1", VersionState::kReady, FraudSignature()));
    catalog_.Put(Entry("a", "2", VersionState::kReady, FraudSignature()));
    catalog_.Put(Entry("a", "3", VersionState::kUnloaded, FraudSignature()));
    catalog_.Put(Entry("b", "1", VersionState::kReady, FraudSignature()));
    backend_.catalog = &catalog_;
    backend_.metrics = &metrics_;
  }
  absl::Status Describe(const std::string& name, const std::string& version) {
    inference::ModelStatisticsRequest request;
    request.set_name(name);
    request.set_version(version);
    response_.Clear();
    return DescribeStatistics(backend_, request, &response_);
  }
  serving::Catalog catalog_;
  telemetry::Metrics metrics_;
  Backend backend_;
  inference::ModelStatisticsResponse response_;
};

TEST_F(DescribeStatisticsTest, WithoutAVersionAllThatAreReady) {
  ASSERT_TRUE(Describe("", "").ok());
  EXPECT_EQ(response_.model_stats_size(), 3);
  ASSERT_TRUE(Describe("a", "").ok());
  ASSERT_EQ(response_.model_stats_size(), 2);
  EXPECT_EQ(response_.model_stats(1).version(), "2");
}

TEST_F(DescribeStatisticsTest, AVersionByNumberWhateverItsState) {
  ASSERT_TRUE(Describe("a", "3").ok());
  ASSERT_EQ(response_.model_stats_size(), 1);
  EXPECT_EQ(response_.model_stats(0).inference_stats().success().count(), 0u);
  EXPECT_EQ(metrics_.Render().find("version=\"3\""), std::string::npos)
      << "asking makes no series";
}

TEST_F(DescribeStatisticsTest, UnknownNamesAreNotFound) {
  EXPECT_EQ(Describe("c", "").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Describe("a", "9").code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace belfry::rpc
