// From a file to READY, or to a FAILED that says why.
#include <string>

#include "server/scheduling/test_support.h"
#include "server/serving/manager_harness.h"

namespace belfry::serving {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum VersionState;

class ManagerLoadTest : public ManagerTest {};

TEST_F(ManagerLoadTest, EchoServesOnEveryCardWithoutACompiler) {
  Start(3);
  const VersionStatus echo = Settled("echo", 1);
  EXPECT_EQ(echo.state, kReady) << echo.reason;
  EXPECT_THAT(echo.cards, ElementsAre("cpu:0", "cpu:1", "cpu:2"));
  EXPECT_EQ(echo.path, "");
  EXPECT_EQ(store_.gets, 0);
  const auto entry = catalog_.Resolve("echo", "");
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ((*entry)->platform, "echo");
  EXPECT_TRUE((*entry)->signature->any_tensor);
  EXPECT_NE((*entry)->queue, nullptr);
}

TEST_F(ManagerLoadTest, WalksThroughEveryState) {
  const std::string path = Put("m", 1, "max_batch: 8\n");
  Gate compile, load, warm;
  store_.on_get = [&](const auto& request, const auto& progress, const auto& cancelled) {
    EXPECT_EQ(request.model_path, path);
    EXPECT_EQ(request.target, "cpu");
    EXPECT_EQ(request.driver.at("driver"), "cpu/1");
    EXPECT_EQ(request.label, "m/1");
    progress({.stage = "inductor", .seconds = 3, .log_tail = "compiling"});
    compile.Pass();
    return absl::OkStatus();
  };
  Make(1);
  pool_->card(0).on_load = [&](const cards::ExecutableSpec& spec) {
    if (spec.label != "m/1") return absl::OkStatus();
    EXPECT_EQ(spec.artifact_dir, "/artifact");
    EXPECT_EQ(spec.builtin, "");
    load.Pass();
    return absl::OkStatus();
  };
  pool_->card(0).on_warm = [&](const auto&) {
    warm.Pass();
    return absl::OkStatus();
  };
  manager_->Start();

  ASSERT_TRUE(compile.AwaitArrivals(1));
  VersionStatus status = *manager_->Status("m", "1");
  EXPECT_EQ(status.state, kCompiling);
  EXPECT_EQ(status.progress.stage, "inductor");
  EXPECT_EQ(status.progress.log_tail, "compiling");
  EXPECT_EQ(status.progress_target, "cpu");
  EXPECT_THAT(std::string(catalog_.Resolve("m", "").status().message()), HasSubstr("COMPILING"));
  compile.Open();
  ASSERT_TRUE(load.AwaitArrivals(1));
  EXPECT_EQ(State("m", 1), kLoading);
  load.Open();
  ASSERT_TRUE(warm.AwaitArrivals(1));
  status = *manager_->Status("m", "1");
  EXPECT_EQ(status.state, kWarming);
  EXPECT_THAT(status.progress.stage, HasSubstr("warm cpu:0 1/"));
  warm.Open();

  status = Settled("m", 1);
  EXPECT_EQ(status.state, kReady);
  EXPECT_EQ(status.reason, "");
  EXPECT_EQ(status.path, path);
  EXPECT_EQ(status.sha256, *FileSystem::Real().Sha256File(path));
  EXPECT_EQ(status.config_yaml, "max_batch: 8\n");
  EXPECT_EQ(status.key, "key-of-m/1");
  EXPECT_FALSE(status.cache_hit);
  EXPECT_EQ(status.compile_seconds, 8.5);
  EXPECT_EQ(status.report_json, R"({"kernels": 7})");
  ASSERT_EQ(status.artifacts.size(), 1u);
  EXPECT_EQ(status.artifacts[0].target, "cpu");
  EXPECT_EQ(status.artifacts[0].bytes, 1024u);
  EXPECT_THAT(status.cards, ElementsAre("cpu:0"));
  EXPECT_GT(status.ready_unix_seconds, 1e9);
  EXPECT_EQ(status.progress.stage, "");
  EXPECT_EQ(store_.pins, 1);
  EXPECT_EQ(Queue("m", 1)->options().limits.max_rows, 8);
}

TEST_F(ManagerLoadTest, AnArtifactFromTheCacheShowsAsAHit) {
  store_.cached = true;
  Put("m", 1);
  Start();
  const VersionStatus status = Settled("m", 1);
  EXPECT_TRUE(status.cache_hit);
  EXPECT_EQ(status.compile_seconds, 0);
  EXPECT_EQ(status.artifacts[0].compile_seconds, 8.5);
  EXPECT_THAT(*manager_->ExplainCacheMiss("m", "1"), HasSubstr("found in the cache"));
}

TEST_F(ManagerLoadTest, TheCacheMissOfACompileIsExplained) {
  Put("m", 1);
  Start();
  ExpectState("m", 1, kReady);
  EXPECT_EQ(*manager_->ExplainCacheMiss("m", "1"), "target cpu: torch: 2.12.0, now 2.13.0");
  EXPECT_EQ(manager_->ExplainCacheMiss("echo", "1").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ManagerLoadTest, AFailedCompileFailsWithItsOwnWordsAndIsNotRepeated) {
  Put("m", 1);
  store_.on_get = [](const auto&, const auto&, const auto&) {
    return absl::FailedPreconditionError("aten::foo has no lowering");
  };
  Start();
  const VersionStatus status = Settled("m", 1);
  EXPECT_EQ(status.state, kFailed);
  EXPECT_THAT(status.reason, HasSubstr("aten::foo has no lowering"));
  EXPECT_THAT(std::string(catalog_.Resolve("m", "1").status().message()),
              AllOf(HasSubstr("FAILED"), HasSubstr("aten::foo has no lowering")));
  EXPECT_EQ(store_.gets, 1);

  // Until someone asks again.
  store_.on_get = nullptr;
  EXPECT_TRUE(manager_->LoadModel("m").ok());
  ExpectState("m", 1, kReady);
  EXPECT_EQ(store_.gets, 2);
}

TEST_F(ManagerLoadTest, FaultsOfModelYamlAreToldBeforeAnythingIsCompiled) {
  Put("m", 1, "max_bach: 8\n");
  Put("n", 1, "cards: [gpu]\n");
  Start();
  const VersionStatus typo = Settled("m", 1);
  EXPECT_EQ(typo.state, kFailed);
  EXPECT_THAT(typo.reason, AllOf(HasSubstr("max_bach"), HasSubstr("max_batch")));
  EXPECT_EQ(typo.config_yaml, "max_bach: 8\n");
  EXPECT_THAT(Settled("n", 1).reason, AllOf(HasSubstr("'gpu'"), HasSubstr("cpu:0")));
  EXPECT_EQ(store_.gets, 0);
}

TEST_F(ManagerLoadTest, AWishThatTheSignatureDoesNotAllowFailsBeforeLoading) {
  Put("m", 1, "max_batch: 1000\n");
  Start(1);
  EXPECT_THAT(Settled("m", 1).reason, AllOf(HasSubstr("max_batch"), HasSubstr("1..64")));
  EXPECT_TRUE(Await([&] { return store_.pins == 0; }));
  EXPECT_THAT(pool_->card(0).events(), testing::Not(Contains("load m/1")));
}

TEST_F(ManagerLoadTest, AFileThatChangesUnderTheCompileIsRefused) {
  Put("m", 1);
  store_.on_manifest = [](const auto&, Manifest& manifest) {
    manifest.key_fields["model_sha256"] = std::string(64, 'a');
  };
  Start();
  EXPECT_THAT(Settled("m", 1).reason, HasSubstr("changed while it was being loaded"));
}

TEST_F(ManagerLoadTest, EveryBucketIsWarmedOnEveryCard) {
  Put("m", 1, "batch_buckets: [4, 16]\n");
  Start(2);
  ExpectState("m", 1, kReady);
  for (int i : {0, 1}) {
    EXPECT_THAT(pool_->card(i).events(),
                testing::IsSupersetOf({"load m/1", "warm batch=4", "warm batch=16"}));
  }
}

TEST_F(ManagerLoadTest, WarmUpKeepsToItsBudget) {
  Put("m", 1, "batch_buckets: [1, 2, 4, 64]\n");
  options_.warm_budget = absl::Seconds(10);
  Make(1);
  // A second for each row: 1 + 2 + 4, but not 64 more.
  pool_->card(0).on_warm = [&](const cards::WarmShape& shape) {
    clock_.Advance(shape[0].second * 1'000'000'000);
    return absl::OkStatus();
  };
  manager_->Start();
  ExpectState("m", 1, kReady);
  EXPECT_THAT(pool_->card(0).events(), AllOf(Contains("warm batch=4"),
                                             testing::Not(Contains("warm batch=64"))));
}

TEST_F(ManagerLoadTest, OneCardIsEnoughAndTheOthersAreNamed) {
  Put("m", 1);
  Make(2);
  pool_->card(0).on_load = [](const auto& spec) {
    return spec.label == "m/1" ? absl::ResourceExhaustedError("no memory left") : absl::OkStatus();
  };
  manager_->Start();
  const VersionStatus status = Settled("m", 1);
  EXPECT_EQ(status.state, kReady);
  EXPECT_THAT(status.reason, HasSubstr("cpu:0: no memory left"));
  EXPECT_THAT(status.cards, ElementsAre("cpu:1"));
  EXPECT_EQ(Queue("m", 1)->cards().load(), 2u);  // only the second is attached
}

TEST_F(ManagerLoadTest, NoCardAtAllFailsWithAllReasons) {
  Put("m", 1);
  Make(2);
  for (int i : {0, 1}) {
    pool_->card(i).on_load = [i](const auto& spec) {
      if (spec.label != "m/1") return absl::OkStatus();
      return absl::FailedPreconditionError("reason " + std::to_string(i));
    };
  }
  manager_->Start();
  const VersionStatus status = Settled("m", 1);
  EXPECT_EQ(status.state, kFailed);
  EXPECT_THAT(status.reason, AllOf(HasSubstr("cpu:0: reason 0"), HasSubstr("cpu:1: reason 1")));
  EXPECT_THAT(status.cards, IsEmpty());
  EXPECT_TRUE(Await([&] { return store_.pins == 0; }));
}

TEST_F(ManagerLoadTest, ACardThatCannotRunItIsGivenBack) {
  Put("m", 1);
  Make(2);
  pool_->card(0).on_warm = [](const auto&) { return absl::InternalError("NaN"); };
  manager_->Start();
  const VersionStatus status = Settled("m", 1);
  EXPECT_EQ(status.state, kReady);
  EXPECT_THAT(status.reason, HasSubstr("cpu:0: NaN"));
  EXPECT_THAT(pool_->card(0).events().back(), HasSubstr("unload"));
}

TEST_F(ManagerLoadTest, AModelThatKillsCardsIsStoppedEarly) {
  Put("m", 1);
  Make(3);
  std::atomic<int> kills{0};
  for (int i : {0, 1, 2}) {
    pool_->card(i).on_load = [&](const auto& spec) {
      if (spec.label != "m/1") return absl::OkStatus();
      kills.fetch_add(1);
      return absl::UnavailableError("killed by signal 11");
    };
  }
  manager_->Start();
  const VersionStatus status = Settled("m", 1);
  EXPECT_EQ(status.state, kFailed);
  EXPECT_THAT(status.reason, AllOf(HasSubstr("quarantined"), HasSubstr("signal 11")));
  EXPECT_EQ(kills, 3);  // twice the first card, once the second, never the third
  EXPECT_EQ(status.crashes, 3);
  EXPECT_THAT(pool_->card(2).events(), testing::Not(Contains("load m/1")));
  // Echo does not mind.
  ExpectState("echo", 1, kReady);
}

TEST_F(ManagerLoadTest, ACardLostByChanceIsTriedOnceMore) {
  Put("m", 1);
  Make(1);
  std::atomic<int> tries{0};
  pool_->card(0).on_load = [&](const auto& spec) {
    if (spec.label != "m/1" || tries.fetch_add(1) > 0) return absl::OkStatus();
    return absl::UnavailableError("killed by signal 9");
  };
  manager_->Start();
  ExpectState("m", 1, kReady);
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(manager_->Status("m", "1")->crashes, 1);
}

TEST_F(ManagerLoadTest, ACardThatIsDownIsNotTheModelsFault) {
  Put("m", 1);
  options_.quarantine_crashes = 1;
  Make(2);
  pool_->card(0).current = cards::CardState::kRestarting;
  pool_->card(0).on_load = [](const auto&) { return absl::UnavailableError("not up in time"); };
  manager_->Start();
  const VersionStatus status = Settled("m", 1);
  EXPECT_EQ(status.state, kReady);
  EXPECT_EQ(status.crashes, 0);
  EXPECT_THAT(status.reason, HasSubstr("cpu:0: not up in time"));
}

TEST_F(ManagerLoadTest, TwoTargetsHaveTwoArtifactsAndOneQueue) {
  Put("m", 1);
  pool_ = std::make_unique<FakePool>(std::vector<std::string>{"cpu", "spyre-sim"});
  Make(0);
  manager_->Start();
  const VersionStatus status = Settled("m", 1);
  EXPECT_EQ(status.state, kReady) << status.reason;
  ASSERT_EQ(status.artifacts.size(), 2u);
  EXPECT_EQ(status.artifacts[1].target, "spyre");
  EXPECT_THAT(status.cards, ElementsAre("cpu:0", "spyre-sim:0"));
  EXPECT_EQ(Queue("m", 1)->cards().load(), 3u);
}

TEST_F(ManagerLoadTest, ATargetThatCannotBeCompiledDoesNotKeepTheOther) {
  Put("m", 1);
  store_.on_get = [](const auto& request, const auto&, const auto&) {
    return request.target == "spyre" ? absl::FailedPreconditionError("no such operator")
                                     : absl::OkStatus();
  };
  pool_ = std::make_unique<FakePool>(std::vector<std::string>{"cpu", "spyre-sim"});
  Make(0);
  manager_->Start();
  const VersionStatus status = Settled("m", 1);
  EXPECT_EQ(status.state, kReady);
  EXPECT_THAT(status.reason, HasSubstr("target spyre: no such operator"));
  EXPECT_THAT(status.cards, ElementsAre("cpu:0"));
}

TEST_F(ManagerLoadTest, ATargetWithAnotherInterfaceIsLeftOut) {
  Put("m", 1);
  store_.on_manifest = [](const auto& request, Manifest& manifest) {
    if (request.target == "spyre") manifest.signature.outputs[0].name = "z";
  };
  pool_ = std::make_unique<FakePool>(std::vector<std::string>{"cpu", "spyre-sim"});
  Make(0);
  manager_->Start();
  const VersionStatus status = Settled("m", 1);
  EXPECT_EQ(status.state, kReady);
  EXPECT_THAT(status.reason, HasSubstr("target spyre: inputs, outputs or batching differ"));
}

TEST_F(ManagerLoadTest, LoadsAreBoundedAndDoNotHoldUpTheRest) {
  options_.parallel_loads = 2;
  Gate gate;
  store_.on_get = [&](const auto&, const auto&, const auto&) {
    gate.Pass();
    return absl::OkStatus();
  };
  for (int i = 0; i < 5; ++i) Put("m" + std::to_string(i), 1);
  Make();
  manager_->Start();
  ASSERT_TRUE(gate.AwaitArrivals(2));
  EXPECT_EQ(store_.gets, 2);
  // One that has not begun goes at once, without waiting for a thread.
  EXPECT_TRUE(manager_->Unload("m4", "").ok());
  EXPECT_EQ(State("m4", 1), kUnloaded);
  gate.Open();
  for (int i = 0; i < 4; ++i) ExpectState("m" + std::to_string(i), 1, kReady);
  EXPECT_EQ(State("m4", 1), kUnloaded);
}

TEST_F(ManagerLoadTest, TheEndStopsACompile) {
  Put("m", 1);
  Gate gate;
  store_.on_get = [&](const auto&, const auto&, const auto& cancelled) {
    return gate.Pass(cancelled) ? absl::OkStatus() : absl::CancelledError("stopped");
  };
  Start();
  ASSERT_TRUE(gate.AwaitArrivals(1));
  Stop();  // joins: hangs if the compile is not told to stop
  EXPECT_EQ(store_.pins, 0);
}

}  // namespace
}  // namespace belfry::serving
