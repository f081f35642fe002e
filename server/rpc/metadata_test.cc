#include "server/rpc/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/rpc/testing.h"

namespace belfry::rpc {
namespace {

using serving::VersionState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class MetadataTest : public ::testing::Test {
 protected:
  absl::Status Describe(const std::string& name, const std::string& version = "") {
    inference::ModelMetadataRequest request;
    request.set_name(name);
    request.set_version(version);
    response_.Clear();
    return DescribeModel(catalog_, request, &response_);
  }
  serving::Catalog catalog_;
  inference::ModelMetadataResponse response_;
};

TEST_F(MetadataTest, TellsTensorsWithTheirSymbolsAsAnySize) {
  catalog_.Put(Entry("fraud", "3", VersionState::kReady, FraudSignature()));
  ASSERT_TRUE(Describe("fraud").ok());
  EXPECT_EQ(response_.name(), "fraud");
  EXPECT_EQ(response_.platform(), "aoti");
  EXPECT_EQ(response_.inputs(0).name(), "x");
  EXPECT_EQ(response_.inputs(0).datatype(), "FP32");
  EXPECT_THAT(response_.inputs(0).shape(), ElementsAre(7, -1, 220));
  EXPECT_THAT(response_.outputs(0).shape(), ElementsAre(-1, 1));
}

TEST_F(MetadataTest, VersionsAreThoseThatCanBeAsked) {
  catalog_.Put(Entry("fraud", "9", VersionState::kReady, FraudSignature()));
  catalog_.Put(Entry("fraud", "10", VersionState::kReady, FraudSignature()));
  catalog_.Put(Entry("fraud", "11", VersionState::kFailed, FraudSignature()));
  catalog_.Put(Entry("other", "1", VersionState::kReady, FraudSignature()));
  ASSERT_TRUE(Describe("fraud", "9").ok());
  EXPECT_THAT(response_.versions(), ElementsAre("9", "10"));
}

TEST_F(MetadataTest, AVersionOnItsWayHasMetadataOnceItsTensorsAreKnown) {
  catalog_.Put(Entry("fraud", "1", VersionState::kLoading, FraudSignature()));
  ASSERT_TRUE(Describe("fraud", "1").ok());
  EXPECT_THAT(response_.versions(), IsEmpty());
  auto compiling = Entry("fraud", "2", VersionState::kCompiling, FraudSignature());
  compiling.signature = nullptr;
  catalog_.Put(compiling);
  const auto status = Describe("fraud", "2");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("COMPILING"));
}

TEST_F(MetadataTest, UnknownNamesAreNotFound) {
  EXPECT_EQ(Describe("nothing").code(), absl::StatusCode::kNotFound);
}

TEST_F(MetadataTest, EchoTakesAnything) {
  catalog_.Put(Entry("echo", "1", VersionState::kReady, EchoSignature()));
  ASSERT_TRUE(Describe("echo").ok());
  ASSERT_EQ(response_.inputs_size(), 1);
  EXPECT_EQ(response_.inputs(0).datatype(), "");
  EXPECT_THAT(response_.inputs(0).shape(), IsEmpty());
}

TEST(ServerMetadataTest, ListsOnlyWhatIsOffered) {
  inference::ServerMetadataResponse response;
  DescribeServer("1.2.3", &response);
  EXPECT_EQ(response.name(), "belfry");
  EXPECT_EQ(response.version(), "1.2.3");
  EXPECT_THAT(response.extensions(),
              UnorderedElementsAre("classification", "model_repository", "schedule_policy",
                                   "model_configuration", "binary_tensor_data", "parameters",
                                   "statistics"));
}

TEST(DescribeSignatureTest, IsForPeople) {
  Signature signature = FraudSignature();
  signature.symbols["seq"] = {};
  EXPECT_THAT(DescribeSignature(signature),
              ElementsAre("input  x  FP32 [7,batch,220]  batch axis 1",
                          "output  score  FP32 [batch,1]  batch axis 0",
                          "symbol  batch  1 to 1024", "symbol  seq  1 to any size"));
}

}  // namespace
}  // namespace belfry::rpc
