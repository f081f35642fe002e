#include "server/cli/version_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace belfry::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::VersionDetail Ready() {
  v1::VersionDetail detail;
  auto* summary = detail.mutable_summary();
  summary->set_name("card-fraud");
  summary->set_version(3);
  summary->set_state(v1::VERSION_STATE_READY);
  summary->set_default_version(true);
  summary->add_cards("cpu:0");
  summary->add_cards("cpu:1");
  detail.set_signature("input  x  FP32 [7,batch,220]  batch axis 1\noutput  y  FP32 [batch,1]");
  auto* artifact = detail.add_artifacts();
  artifact->set_target("cpu");
  artifact->set_key("ab12");
  artifact->set_cache_hit(true);
  artifact->set_compile_seconds(8.1);
  artifact->set_report_json(
      R"({"stages":[{"name":"load","seconds":0.8}],"kernels":7,"fallbacks":["aten.f"]})");
  detail.mutable_batching()->set_batchable(true);
  detail.mutable_batching()->set_symbol("batch");
  detail.mutable_batching()->set_max_rows(1024);
  return detail;
}

TEST(VersionTextTest, ShowsAReadyVersion) {
  EXPECT_THAT(DetailText(Ready()),
              AllOf(HasSubstr("card-fraud version 3  READY  (default)"),
                    HasSubstr("ab12"), HasSubstr("from the cache"), HasSubstr("load 800 ms"),
                    HasSubstr("7 kernels"), HasSubstr("fell back: aten.f"),
                    HasSubstr("along 'batch', at most 1024 rows"), HasSubstr("cpu:0, cpu:1"),
                    HasSubstr("\n             output  y  FP32 [batch,1]\n"),
                    Not(HasSubstr("reason"))));
}

TEST(VersionTextTest, SaysWhyThereIsNoBatching) {
  auto detail = Ready();
  detail.mutable_batching()->set_batchable(false);
  detail.mutable_batching()->set_reason("rows see each other");
  EXPECT_THAT(DetailText(detail), HasSubstr("none: rows see each other"));
}

TEST(VersionTextTest, ShowsProgressAndTheLog) {
  v1::VersionDetail detail;
  auto* summary = detail.mutable_summary();
  summary->set_state(v1::VERSION_STATE_COMPILING);
  summary->mutable_progress()->set_stage("inductor");
  summary->mutable_progress()->set_target("cpu");
  summary->mutable_progress()->set_seconds(12);
  summary->mutable_progress()->set_log_tail("first\nsecond");
  EXPECT_THAT(DetailText(detail), AllOf(HasSubstr("COMPILING"), HasSubstr("inductor (cpu), 12 s"),
                                        HasSubstr("log        first\n             second\n")));
}

TEST(VersionTextTest, BearsWithAReportOfAnotherShape) {
  auto detail = Ready();
  for (const char* report : {"", "[]", "{", R"({"stages":7})", R"({"stages":[{"name":1}]})"}) {
    detail.mutable_artifacts(0)->set_report_json(report);
    EXPECT_THAT(DetailText(detail), HasSubstr("ab12")) << report;
  }
}

TEST(VersionTextTest, BearsWithStatesOfALaterServer) {
  EXPECT_EQ(StateName(v1::VERSION_STATE_DRAINING), "DRAINING");
  EXPECT_EQ(StateName(static_cast<v1::VersionState>(99)), "?");
}

}  // namespace
}  // namespace belfry::cli
