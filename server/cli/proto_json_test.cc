#include "server/cli/proto_json.h"

#include <gtest/gtest.h>

#include "proto/open_inference.pb.h"
#include "proto/registry.pb.h"

namespace belfry::cli {
namespace {

TEST(ProtoJsonTest, EveryFieldIsThereUnderItsName) {
  v1::VersionSummary summary;
  summary.set_name("card-fraud");
  summary.set_version(1ll << 60);
  summary.set_state(v1::VERSION_STATE_READY);
  summary.add_cards("cpu:0");
  EXPECT_EQ(ProtoToJson(summary).dump(),
            R"({"name":"card-fraud","version":1152921504606846976,"state":"READY","reason":"",)"
            R"("default_version":false,"aliases":[],"targets":[],"cards":["cpu:0"],)"
            R"("progress":null,"ready_unix_seconds":0.0})");
}

TEST(ProtoJsonTest, NestsMessagesAndJson) {
  v1::Artifact artifact;
  artifact.set_report_json(R"({"kernels": 7})");
  const auto json = ProtoToJson(artifact);
  EXPECT_EQ(json["report"]["kernels"], 7);
  EXPECT_FALSE(json.contains("report_json"));
  artifact.set_report_json("{broken");
  EXPECT_TRUE(ProtoToJson(artifact)["report"].is_null());
  v1::VersionDetail detail;
  detail.mutable_batching()->add_buckets(8);
  EXPECT_EQ(ProtoToJson(detail)["batching"]["buckets"][0], 8);
}

TEST(ProtoJsonTest, MapsBecomeObjects) {
  inference::ModelConfig config;
  (*config.mutable_parameters())["belfry.version"].set_string_value("3");
  EXPECT_EQ(ProtoToJson(config)["parameters"]["belfry.version"]["string_value"], "3");
}

}  // namespace
}  // namespace belfry::cli
