#include "server/rpc/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/rpc/testing.h"

namespace belfry::rpc {
namespace {

using ::testing::ElementsAre;

inference::ModelConfig ConfigOf(const Signature& signature,
                                const scheduling::QueueOptions* queue) {
  inference::ModelConfig config;
  FillConfig(Entry("m", "1", serving::VersionState::kReady, signature), signature, queue, &config);
  return config;
}

std::string Parameter(const inference::ModelConfig& config, const std::string& key) {
  const auto at = config.parameters().find("belfry." + key);
  return at == config.parameters().end() ? "(none)" : at->second.string_value();
}

TEST(ModelConfigTest, BatchesAlongTheFirstAxisInTheExtensionsWay) {
  const auto queue = QueueFor(FirstAxisSignature());
  const auto config = ConfigOf(FirstAxisSignature(), &queue);
  EXPECT_EQ(config.max_batch_size(), 64);
  EXPECT_THAT(config.input(0).dims(), ElementsAre(30));
  EXPECT_THAT(config.output(0).dims(), ElementsAre(1));
  EXPECT_EQ(config.input(0).data_type(), inference::TYPE_FP32);
}

TEST(ModelConfigTest, AnotherBatchAxisStaysVisible) {
  const auto queue = QueueFor(FraudSignature());
  const auto config = ConfigOf(FraudSignature(), &queue);
  EXPECT_EQ(config.max_batch_size(), 0) << "a client would put a dimension in front";
  EXPECT_THAT(config.input(0).dims(), ElementsAre(7, -1, 220));
  EXPECT_EQ(Parameter(config, "batch_axis.x"), "1");
  EXPECT_EQ(Parameter(config, "shape.x"), "FP32 [7,batch,220]");
  EXPECT_EQ(Parameter(config, "symbol.batch"), "1..1024");
  EXPECT_EQ(Parameter(config, "max_rows"), "64");
  EXPECT_TRUE(config.has_dynamic_batching());
}

TEST(ModelConfigTest, TellsQueueAndDelay) {
  auto queue = QueueFor(FirstAxisSignature());
  queue.limits.delay = 250'000;
  queue.limits.buckets = {8, 64};
  queue.max_queue = 100;
  queue.default_deadline = 5'000'000;
  queue.default_priority = 3;
  const auto config = ConfigOf(FirstAxisSignature(), &queue);
  const auto& batching = config.dynamic_batching();
  EXPECT_EQ(batching.max_queue_delay_microseconds(), 250u);
  EXPECT_THAT(batching.preferred_batch_size(), ElementsAre(8, 64));
  EXPECT_EQ(batching.default_priority_level(), 3u);
  EXPECT_EQ(batching.default_queue_policy().max_queue_size(), 100u);
  EXPECT_EQ(batching.default_queue_policy().default_timeout_microseconds(), 5000u);
}

TEST(ModelConfigTest, SaysWhyThereIsNoBatching) {
  Signature signature = FirstAxisSignature();
  signature.batchable = false;
  signature.unbatched_reason = "rows see each other";
  const auto queue = QueueFor(signature);
  const auto config = ConfigOf(signature, &queue);
  EXPECT_EQ(config.max_batch_size(), 0);
  EXPECT_THAT(config.input(0).dims(), ElementsAre(-1, 30));
  EXPECT_FALSE(config.has_dynamic_batching());
  EXPECT_EQ(Parameter(config, "batchable"), "false");
  EXPECT_EQ(Parameter(config, "unbatched_reason"), "rows see each other");
}

TEST(ModelConfigTest, AVersionThatIsNotReadyHasItsSignature) {
  const auto config = ConfigOf(FraudSignature(), nullptr);
  EXPECT_EQ(config.input_size(), 1);
  EXPECT_EQ(Parameter(config, "max_rows"), "(none)");
}

TEST(ModelConfigTest, EveryDatatypeHasItsWord) {
  for (int i = 1; i < kDataTypeCount; ++i) {
    Signature signature = FraudSignature();
    signature.inputs[0].dtype = static_cast<DataType>(i);
    const auto name = inference::DataType_Name(ConfigOf(signature, nullptr).input(0).data_type());
    const std::string expected(DataTypeName(static_cast<DataType>(i)));
    EXPECT_EQ(name, "TYPE_" + (expected == "BYTES" ? "STRING" : expected));
  }
}

}  // namespace
}  // namespace belfry::rpc
