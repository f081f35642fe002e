// The manager with real card processes, whose driver crashes when it is told to.
// Only the compiler is not real.
#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/driver_fault/fault_artifact.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/scheduling/test_support.h"
#include "server/serving/fake_store.h"
#include "server/serving/manager.h"
#include "server/serving/temp_tree.h"

namespace belfry::serving {
namespace {

using scheduling::testing::CollectingSink;
using scheduling::testing::MakeJob;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using enum VersionState;

constexpr absl::Duration kLong = absl::Seconds(90);

class ManagerCardsTest : public testing::Test {
 protected:
  ManagerCardsTest() {
    store_.dir_of = [this](const artifacts::CompileRequest& request) { return Dir(request.label); };
    store_.on_manifest = [this](const artifacts::CompileRequest& request, Manifest& manifest) {
      const std::string sha256 = manifest.key_fields["model_sha256"];
      auto read = ReadManifest(Dir(request.label));
      ASSERT_TRUE(read.ok()) << read.status();
      manifest = *std::move(read);
      manifest.key_fields["model_sha256"] = sha256;
    };
    cards::PoolOptions pool;
    pool.groups = {{"fault", 2}};
    pool.card_binary = BELFRY_CARD_BINARY;
    pool.arena_bytes = 1 << 20;
    pool.backoff_first = absl::Milliseconds(5);
    pool.backoff_limit = absl::Milliseconds(100);
    auto started = cards::CardPool::Start(pool, &dispatcher_);
    EXPECT_TRUE(started.ok()) << started.status();
    pool_ = *std::move(started);
    dispatcher_.SetCards(pool_->cards());
    ManagerOptions options;
    options.model_dir = tree_.MakeDir("models");
    options.describe_driver = [](const std::string& driver) {
      return cards::DescribeDriver(BELFRY_CARD_BINARY, driver);
    };
    manager_ = std::make_unique<Manager>(options, &catalog_, &dispatcher_, pool_.get(), &store_,
                                         &metrics_);
    dispatcher_.SetModelListener(manager_.get());
  }
  ~ManagerCardsTest() override {
    manager_->Drain(absl::Seconds(10));
    pool_->Stop(absl::Seconds(10));
    manager_.reset();
  }

  // The folder of the artifact "m/1".
  std::string Dir(std::string label) const {
    label[label.find('/')] = '-';
    return tree_.Path("artifacts/" + label);
  }
  void Put(const std::string& model, int version, const nlohmann::json& rules) {
    const std::string number = std::to_string(version);
    WriteFaultArtifact(Dir(model + "/" + number), rules);
    tree_.Write("models/" + model + "/" + number + "/model.pt2", model + number);
  }
  VersionStatus Load(const std::string& model, int version) {
    const auto asked = manager_->LoadModel(model);
    EXPECT_TRUE(asked.ok()) << asked;
    return Settled(model, version);
  }
  VersionStatus Settled(const std::string& model, int version) {
    const auto status = manager_->Wait(model, std::to_string(version), kLong);
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : VersionStatus();
  }
  // As an RPC does it: one row of four floats there and back.
  absl::Status Infer(const std::string& model, float first) {
    CollectingSink sink;
    const auto accepted = catalog_.WithReady(model, "", [&](const auto& entry) {
      return dispatcher_.Submit(MakeJob(entry->queue, {1, 4}, first, &sink));
    });
    if (!accepted.ok()) return accepted;
    EXPECT_TRUE(sink.WaitFor(1, kLong));
    if (!sink.status().ok()) return sink.status();
    EXPECT_THAT(sink.floats(0), ElementsAre(first, first + 1, first + 2, first + 3));
    return absl::OkStatus();
  }

  TempTree tree_;
  telemetry::Metrics metrics_;
  Catalog catalog_;
  FakeStore store_;
  scheduling::Dispatcher dispatcher_;
  std::unique_ptr<cards::CardPool> pool_;
  std::unique_ptr<Manager> manager_;
};

TEST_F(ManagerCardsTest, EchoAndAModelServeFromEveryCard) {
  Put("m", 1, nlohmann::json::object());
  manager_->Start();
  EXPECT_EQ(Settled("echo", 1).state, kReady);
  const VersionStatus status = Settled("m", 1);
  ASSERT_EQ(status.state, kReady) << status.reason;
  EXPECT_THAT(status.cards, ElementsAre("fault:0", "fault:1"));
  EXPECT_EQ(status.artifacts[0].target, "fault");
  EXPECT_TRUE(manager_->Ready());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Infer("m", static_cast<float>(i)).ok());
  EXPECT_TRUE(manager_->Unload("m", "").ok());
  EXPECT_EQ(Settled("m", 1).state, kUnloaded);
  for (cards::Card* card : pool_->cards()) {
    EXPECT_THAT(card->Info().residents, ElementsAre("echo/1"));
  }
}

// The promise of a reload: under load, nothing is lost and nothing is refused.
TEST_F(ManagerCardsTest, SwapsUnderLoadLoseNothing) {
  constexpr int kVersions = 25;
  Put("m", 1, nlohmann::json::object());
  manager_->Start();
  ASSERT_EQ(Settled("m", 1).state, kReady);
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0};
  std::atomic<int> failed{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; !stop.load(); ++i) {
        const auto status = Infer("m", static_cast<float>(c * 1000 + i % 1000));
        (status.ok() ? answered : failed).fetch_add(1);
        EXPECT_TRUE(status.ok()) << status;
      }
    });
  }
  for (int version = 2; version <= kVersions; ++version) {
    Put("m", version, nlohmann::json::object());
    EXPECT_EQ(Load("m", version).state, kReady);
  }
  stop = true;
  for (auto& client : clients) client.join();
  EXPECT_GT(answered, 0);
  EXPECT_EQ(failed, 0);
  for (int version = 1; version < kVersions; ++version) {
    EXPECT_EQ(Settled("m", version).state, kUnloaded);
  }
}

TEST_F(ManagerCardsTest, AModelThatKillsCardsIsQuarantinedAndTheOthersServeOn) {
  Put("good", 1, nlohmann::json::object());
  Put("bad", 1, {{"run", "crash"}});
  manager_->Start();
  ASSERT_EQ(Settled("good", 1).state, kReady);
  ASSERT_EQ(Settled("bad", 1).state, kReady);
  // Each request takes cards along until the version is taken out.
  for (int i = 0; i < 20 && manager_->Status("bad", "1")->state == kReady; ++i) {
    EXPECT_FALSE(Infer("bad", 0).ok());
  }
  const VersionStatus status = Settled("bad", 1);
  EXPECT_EQ(status.state, kFailed);
  EXPECT_THAT(status.reason, AllOf(HasSubstr("quarantined"), HasSubstr("fault:")));
  EXPECT_EQ(status.crashes, 3);
  const auto refused = Infer("bad", 0);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_TRUE(Infer("good", 1).ok());
  EXPECT_EQ(manager_->Status("good", "1")->state, kReady);
}

TEST_F(ManagerCardsTest, AModelThatKillsCardsWhenItIsLoadedFails) {
  Put("good", 1, nlohmann::json::object());
  manager_->Start();
  ASSERT_EQ(Settled("good", 1).state, kReady);
  Put("bad", 1, {{"load", "crash"}});
  const VersionStatus status = Load("bad", 1);
  EXPECT_EQ(status.state, kFailed);
  EXPECT_THAT(status.reason, HasSubstr("quarantined"));
  EXPECT_TRUE(Infer("good", 1).ok());
}

TEST_F(ManagerCardsTest, ANewVersionThatCannotLoadLeavesTheOldServing) {
  Put("m", 1, nlohmann::json::object());
  manager_->Start();
  ASSERT_EQ(Settled("m", 1).state, kReady);
  Put("m", 2, {{"load", "fail"}});
  const VersionStatus status = Load("m", 2);
  EXPECT_EQ(status.state, kFailed);
  EXPECT_THAT(status.reason, AllOf(HasSubstr("fault:0"), HasSubstr("fault:1")));
  EXPECT_TRUE(Infer("m", 5).ok());
  EXPECT_EQ((*catalog_.Resolve("m", ""))->version, "1");
}

}  // namespace
}  // namespace belfry::serving
