// A manager among fakes of what misbehaves on demand (cards, compiler) and the
// real rest (dispatcher, queues, catalog, files); for tests.
#ifndef BELFRY_SERVER_SERVING_MANAGER_HARNESS_H_
#define BELFRY_SERVER_SERVING_MANAGER_HARNESS_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/serving/fake_card.h"
#include "server/serving/fake_store.h"
#include "server/serving/gate.h"
#include "server/serving/manager.h"
#include "server/serving/temp_tree.h"
#include "server/serving/version_table.h"

namespace belfry::serving {

inline constexpr absl::Duration kPatience = absl::Seconds(30);

class ManagerTest : public testing::Test {
 protected:
  ManagerTest() {
    options_.model_dir = tree_.MakeDir("models");
    options_.describe_driver = [](const std::string& driver) {
      return std::map<std::string, std::string>{{"driver", driver + "/1"}};
    };
  }
  ~ManagerTest() override { Stop(); }

  // With so many cpu cards, all READY; 0: with those of pool_.
  Manager& Make(int cards = 2) {
    if (cards > 0) pool_ = std::make_unique<FakePool>(cards);
    dispatcher_.SetCards(pool_->cards());
    manager_ = std::make_unique<Manager>(options_, &catalog_, &dispatcher_, pool_.get(), &store_,
                                         &metrics_, &clock_);
    dispatcher_.SetModelListener(manager_.get());
    return *manager_;
  }
  Manager& Start(int cards = 2) {
    Make(cards).Start();
    return *manager_;
  }
  void Stop() {
    manager_.reset();
    dispatcher_.SetModelListener(nullptr);
  }

  // Another content for every version, and a model.yaml if given.
  std::string Put(const std::string& model, int version, const std::string& yaml = "") {
    const std::string dir = "models/" + model + "/" + std::to_string(version);
    if (!yaml.empty()) tree_.Write(dir + "/model.yaml", yaml);
    return tree_.Write(dir + "/model.pt2", model + std::to_string(version));
  }
  VersionStatus Settled(const std::string& model, int version) {
    const auto status = manager_->Wait(model, std::to_string(version), kPatience);
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : VersionStatus();
  }
  void ExpectState(const std::string& model, int version, VersionState state) {
    const VersionStatus status = Settled(model, version);
    EXPECT_EQ(status.state, state)
        << VersionStateName(status.state) << " " << status.reason << ", expected "
        << VersionStateName(state);
  }
  VersionState State(const std::string& model, int version) {
    const auto status = manager_->Status(model, std::to_string(version));
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? status->state : VersionState::kUnloaded;
  }
  // For what happens after a state that can be waited for.
  static bool Await(const std::function<bool()>& condition) {
    const absl::Time until = absl::Now() + kPatience;
    while (!condition()) {
      if (absl::Now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  bool AwaitState(const std::string& model, int version, VersionState state) {
    return Await([&] { return State(model, version) == state; });
  }
  std::shared_ptr<scheduling::ModelQueue> Queue(const std::string& model, int version) {
    const auto entry = catalog_.Resolve(model, std::to_string(version));
    EXPECT_TRUE(entry.ok()) << entry.status();
    return entry.ok() ? (*entry)->queue : nullptr;
  }
  // What the dispatcher says of a batch that took its card along.
  void Crash(const std::shared_ptr<scheduling::ModelQueue>& queue,
             const std::string& card = "cpu:0") {
    manager_->OnCardCrashed(queue, card, absl::UnavailableError("killed by signal 6"));
  }

  TempTree tree_;
  ManagerOptions options_;
  ManualClock clock_;
  telemetry::Metrics metrics_;
  Catalog catalog_;
  FakeStore store_;
  std::unique_ptr<FakePool> pool_;
  scheduling::Dispatcher dispatcher_;
  std::unique_ptr<Manager> manager_;
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_MANAGER_HARNESS_H_
