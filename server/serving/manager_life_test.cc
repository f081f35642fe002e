// What becomes of versions that serve: replaced, unloaded, quarantined, drained.
#include <string>

#include "server/scheduling/test_support.h"
#include "server/serving/manager_harness.h"

namespace belfry::serving {
namespace {

using scheduling::testing::CollectingSink;
using scheduling::testing::MakeJob;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum VersionState;

class ManagerLifeTest : public ManagerTest {
 protected:
  // The fake cards take no batch, so what is accepted waits until it is told.
  std::shared_ptr<scheduling::Job> Submit(const std::shared_ptr<scheduling::ModelQueue>& queue,
                                          CollectingSink* sink) {
    auto job = MakeJob(queue, {1, 4}, 0, sink);
    EXPECT_TRUE(dispatcher_.Submit(job).ok());
    return job;
  }
};

TEST_F(ManagerLifeTest, OnlyTheNewestVersionIsLoaded) {
  Put("m", 1);
  Put("m", 2);
  Put("m", 10);
  Start();
  ExpectState("m", 10, kReady);
  EXPECT_EQ(manager_->Status("m", "2").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_.gets, 1);
}

TEST_F(ManagerLifeTest, AllVersionsUnderThatPolicy) {
  options_.policy = VersionPolicy::kAll;
  Put("m", 1);
  Put("m", 2);
  Start();
  ExpectState("m", 1, kReady);
  ExpectState("m", 2, kReady);
  Put("m", 3);
  EXPECT_TRUE(manager_->LoadModel("m").ok());
  ExpectState("m", 3, kReady);
  ExpectState("m", 1, kReady);
}

TEST_F(ManagerLifeTest, TheOldServesUntilTheNewIsReadyThenGoes) {
  Put("m", 1);
  Start(1);
  ExpectState("m", 1, kReady);
  const auto old = Queue("m", 1);
  Gate gate;
  store_.on_get = [&](const auto&, const auto&, const auto&) {
    gate.Pass();
    return absl::OkStatus();
  };
  Put("m", 2);
  EXPECT_TRUE(manager_->LoadModel("m").ok());
  ASSERT_TRUE(gate.AwaitArrivals(1));
  EXPECT_EQ((*catalog_.Resolve("m", ""))->version, "1");
  EXPECT_EQ(State("m", 1), kReady);
  gate.Open();
  ExpectState("m", 2, kReady);
  EXPECT_EQ((*catalog_.Resolve("m", ""))->version, "2");
  EXPECT_TRUE(AwaitState("m", 1, kUnloaded));
  EXPECT_TRUE(old->closed());
  EXPECT_EQ(old->cards().load(), 0u);
  EXPECT_THAT(pool_->card(0).events(), Contains(testing::StartsWith("unload")));
  EXPECT_TRUE(Await([&] { return store_.pins == 1; }));
}

TEST_F(ManagerLifeTest, ANewVersionThatFailsReplacesNothing) {
  Put("m", 1);
  Start();
  ExpectState("m", 1, kReady);
  store_.on_get = [](const auto&, const auto&, const auto&) {
    return absl::FailedPreconditionError("misses its tolerance");
  };
  Put("m", 2);
  EXPECT_TRUE(manager_->LoadModel("m").ok());
  ExpectState("m", 2, kFailed);
  ExpectState("m", 1, kReady);
  EXPECT_EQ((*catalog_.Resolve("m", ""))->version, "1");
}

TEST_F(ManagerLifeTest, AcceptedRequestsAreWaitedForAndNewOnesGoToTheNewVersion) {
  Put("m", 1);
  Start(1);
  ExpectState("m", 1, kReady);
  const auto old = Queue("m", 1);
  CollectingSink sink;
  const auto job = Submit(old, &sink);
  Put("m", 2);
  EXPECT_TRUE(manager_->LoadModel("m").ok());
  ExpectState("m", 2, kReady);
  EXPECT_TRUE(AwaitState("m", 1, kDraining));
  EXPECT_TRUE(Await([&] { return old->closed(); }));
  // One that had looked up the old version is sent to the new one, not away.
  auto late = MakeJob(old, {1, 4}, 0, &sink);
  const auto refused = dispatcher_.Submit(late);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(IsRetired(refused)) << refused;
  EXPECT_EQ(State("m", 1), kDraining);
  EXPECT_EQ(sink.count(), 0u);
  dispatcher_.Cancel(job);  // answered
  EXPECT_TRUE(AwaitState("m", 1, kUnloaded));
  EXPECT_EQ(sink.count(), 1u);
}

TEST_F(ManagerLifeTest, ADrainEndsAtItsTimeoutAndAnswersWhatIsLeft) {
  options_.drain_timeout = absl::Milliseconds(10);
  Put("m", 1);
  Start(1);
  ExpectState("m", 1, kReady);
  CollectingSink sink;
  Submit(Queue("m", 1), &sink);
  EXPECT_TRUE(manager_->Unload("m", "1").ok());
  ExpectState("m", 1, kUnloaded);
  ASSERT_TRUE(sink.WaitFor(1));
  EXPECT_EQ(sink.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ManagerLifeTest, LoadingAgainWhatIsReadyIsANoOp) {
  Put("m", 1);
  Start(1);
  ExpectState("m", 1, kReady);
  const auto queue = Queue("m", 1);
  EXPECT_TRUE(manager_->LoadModel("m").ok());
  EXPECT_TRUE(manager_->LoadModel("echo").ok());
  const auto loaded = manager_->LoadPath(tree_.Path("models/m/1"), "", 0);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded, std::pair(std::string("m"), std::string("1")));
  EXPECT_EQ(State("m", 1), kReady);
  EXPECT_EQ(Queue("m", 1), queue);
  EXPECT_EQ(store_.gets, 1);
}

TEST_F(ManagerLifeTest, AVersionNeverChangesItsBytes) {
  const std::string path = Put("m", 1);
  Start(1);
  ExpectState("m", 1, kReady);
  const std::string bytes = "m1";
  tree_.Write("models/m/1/model.pt2", "other bytes");
  for (int i = 0; i < 2; ++i) {
    const auto status = i == 0 ? manager_->LoadModel("m")
                               : manager_->LoadPath(path, "", 0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("'m' version 1"), HasSubstr("new number")));
  }
  EXPECT_EQ(State("m", 1), kReady);
  EXPECT_EQ(store_.gets, 1);
  // The same bytes written anew, and another copy of them, are the same version.
  tree_.Write("models/m/1/model.pt2", bytes);
  EXPECT_TRUE(manager_->LoadModel("m").ok());
  tree_.Write("models/copies/m.pt2", bytes);
  EXPECT_TRUE(manager_->LoadPath(tree_.Path("models/copies/m.pt2"), "m", 1).ok());
  EXPECT_EQ(store_.gets, 1);
}

TEST_F(ManagerLifeTest, AnUnloadedVersionKeepsItsBytesToo) {
  Put("m", 1);
  Start(1);
  ExpectState("m", 1, kReady);
  EXPECT_TRUE(manager_->Unload("m", "").ok());
  ExpectState("m", 1, kUnloaded);
  tree_.Write("models/m/1/model.pt2", "other bytes");
  EXPECT_EQ(manager_->LoadModel("m").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(State("m", 1), kUnloaded);
}

TEST_F(ManagerLifeTest, LoadPathNamesAndNumbers) {
  tree_.Write("elsewhere/final.pt2", "a");
  tree_.Write("elsewhere/next.pt2", "b");
  options_.load_roots = {tree_.Path("elsewhere")};
  Start(1);
  EXPECT_EQ(manager_->LoadPath(tree_.Path("elsewhere/final.pt2"), "", 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(manager_->LoadPath(tree_.Path("elsewhere/final.pt2"), "a/b", 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(manager_->LoadPath(tree_.Path("elsewhere/final.pt2"), "echo", 2).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(manager_->LoadPath(tree_.Path("elsewhere/final.pt2"), "m", -1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(manager_->LoadPath("/etc/passwd", "m", 0).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(manager_->LoadPath(tree_.Path("elsewhere/final.pt2"), "m", 0)->second, "1");
  ExpectState("m", 1, kReady);
  EXPECT_EQ(manager_->LoadPath(tree_.Path("elsewhere/next.pt2"), "m", 0)->second, "2");
  ExpectState("m", 2, kReady);
  EXPECT_TRUE(AwaitState("m", 1, kUnloaded));
  // By name alone: from where it came.
  EXPECT_TRUE(manager_->Unload("m", "").ok());
  ExpectState("m", 2, kUnloaded);
  EXPECT_TRUE(manager_->LoadModel("m").ok());
  ExpectState("m", 2, kReady);
}

TEST_F(ManagerLifeTest, AnExplicitLowerVersionServesBesideAndDoesNotReplace) {
  Put("m", 1);
  Put("m", 2);
  Start(1);
  ExpectState("m", 2, kReady);
  ASSERT_TRUE(manager_->LoadPath(tree_.Path("models/m/1"), "", 0).ok());
  ExpectState("m", 1, kReady);
  ExpectState("m", 2, kReady);
  EXPECT_EQ((*catalog_.Resolve("m", ""))->version, "2");
  EXPECT_TRUE(manager_->Unload("m", "2").ok());
  EXPECT_EQ((*catalog_.Resolve("m", ""))->version, "1");  // from the return of Unload on
  ExpectState("m", 2, kUnloaded);
  ExpectState("m", 1, kReady);
}

TEST_F(ManagerLifeTest, UnloadOfWhatIsNotThere) {
  Start(1);
  ExpectState("echo", 1, kReady);
  EXPECT_EQ(manager_->Unload("m", "").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(manager_->Unload("echo", "2").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(manager_->Unload("echo", "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(manager_->Unload("", "").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(manager_->LoadModel("m").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(manager_->Unload("echo", "").ok());
  ExpectState("echo", 1, kUnloaded);
  EXPECT_TRUE(manager_->Unload("echo", "1").ok());
}

TEST_F(ManagerLifeTest, UnloadStopsACompileAndALaterLoadStartsAnew) {
  Put("m", 1);
  Gate first;
  store_.on_get = [&](const auto&, const auto&, const auto& cancelled) {
    return first.Pass(cancelled) ? absl::OkStatus() : absl::CancelledError("stopped");
  };
  Start(1);
  ASSERT_TRUE(first.AwaitArrivals(1));
  EXPECT_TRUE(manager_->Unload("m", "1").ok());
  // Asked for again while the compile is still ending: it must not be forgotten.
  first.Open();
  EXPECT_TRUE(manager_->LoadModel("m").ok());
  ExpectState("m", 1, kReady);
}

TEST_F(ManagerLifeTest, UnloadAndLoadInTurnAlwaysEndReady) {
  Put("m", 1);
  Start(1);
  ExpectState("m", 1, kReady);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(manager_->Unload("m", "").ok());
    if (i % 2 == 0) ExpectState("m", 1, kUnloaded);
    ASSERT_TRUE(manager_->LoadModel("m").ok());
    if (i % 3 == 0) ExpectState("m", 1, kReady);
  }
  ExpectState("m", 1, kReady);
  EXPECT_TRUE(Await([&] { return store_.pins == 1; }));
}

TEST_F(ManagerLifeTest, TooManyCrashesQuarantineAndTheOldVersionStays) {
  options_.policy = VersionPolicy::kAll;
  Put("m", 1);
  Put("m", 2);
  Start(2);
  ExpectState("m", 1, kReady);
  ExpectState("m", 2, kReady);
  const auto queue = Queue("m", 2);
  CollectingSink sink;
  Submit(queue, &sink);
  Crash(queue);
  Crash(queue, "cpu:1");
  EXPECT_EQ(State("m", 2), kReady);
  EXPECT_EQ(manager_->Status("m", "2")->crashes, 2);
  Crash(queue);
  // At once, from the third event on.
  EXPECT_EQ(State("m", 2), kFailed);
  EXPECT_EQ((*catalog_.Resolve("m", ""))->version, "1");
  EXPECT_THAT(manager_->Status("m", "2")->reason,
              AllOf(HasSubstr("quarantined"), HasSubstr("while running it: 3"),
                    HasSubstr("killed by signal 6")));
  ASSERT_TRUE(sink.WaitFor(1));
  EXPECT_EQ(sink.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Await([&] { return queue->cards().load() == 0 && store_.pins == 1; }));
  EXPECT_TRUE(IsRetired(dispatcher_.Submit(MakeJob(queue, {1, 4}, 0, &sink))) ||
              queue->closed());
  EXPECT_TRUE(Await([&] {
    const auto events = pool_->card(0).events();
    return events.back().starts_with("unload");
  }));
  EXPECT_THAT(manager_->Status("m", "2")->cards, IsEmpty());
  Crash(queue);  // a late event of what is gone
  EXPECT_EQ(State("m", 2), kFailed);

  // Who asks for it again gets it, with a clean record.
  EXPECT_TRUE(manager_->LoadModel("m").ok());
  ExpectState("m", 2, kReady);
  EXPECT_EQ(manager_->Status("m", "2")->crashes, 0);
}

TEST_F(ManagerLifeTest, CrashesFarApartAreForgiven) {
  options_.quarantine_window = absl::Minutes(10);
  Put("m", 1);
  Start(1);
  ExpectState("m", 1, kReady);
  const auto queue = Queue("m", 1);
  for (int i = 0; i < 10; ++i) {
    Crash(queue);
    clock_.Advance(absl::ToInt64Nanoseconds(absl::Minutes(6)));
  }
  EXPECT_EQ(State("m", 1), kReady);
}

TEST_F(ManagerLifeTest, ACrashOfADrainingVersionDoesNotReviveIt) {
  options_.quarantine_crashes = 1;
  Put("m", 1);
  Start(1);
  ExpectState("m", 1, kReady);
  const auto queue = Queue("m", 1);
  CollectingSink sink;
  Submit(queue, &sink);
  EXPECT_TRUE(manager_->Unload("m", "1").ok());
  EXPECT_EQ(State("m", 1), kDraining);
  Crash(queue);
  ASSERT_TRUE(sink.WaitFor(1));  // answered, so that the drain ends
  // Unloaded was wished, so that is where it ends.
  EXPECT_TRUE(AwaitState("m", 1, kUnloaded));
  EXPECT_EQ(store_.pins, 0);
}

TEST_F(ManagerLifeTest, AResidentThatIsLostLeavesTheOthers) {
  Put("m", 1);
  Start(2);
  ExpectState("m", 1, kReady);
  const auto queue = Queue("m", 1);
  const auto id = queue->options().executable;
  manager_->OnResidencyLost(id, "cpu:0", absl::UnavailableError("killed the card twice"));
  EXPECT_EQ(State("m", 1), kReady);
  EXPECT_THAT(manager_->Status("m", "1")->cards, ElementsAre("cpu:1"));
  EXPECT_THAT(manager_->Status("m", "1")->reason, HasSubstr("cpu:0 lost it"));
  EXPECT_TRUE(Await([&] { return queue->cards().load() == 2u; }));
  manager_->OnResidencyLost(id, "cpu:0", absl::UnavailableError("again"));  // known
  EXPECT_EQ(State("m", 1), kReady);
  manager_->OnResidencyLost(id, "cpu:1", absl::UnavailableError("killed the card twice"));
  EXPECT_EQ(State("m", 1), kFailed);
  EXPECT_THAT(manager_->Status("m", "1")->reason, HasSubstr("no card holds it"));
  EXPECT_TRUE(Await([&] { return queue->closed(); }));
  EXPECT_TRUE(manager_->LoadModel("m").ok());
  ExpectState("m", 1, kReady);
  EXPECT_NE(Queue("m", 1)->options().executable, id);
  // What comes late of the former executable is not about this one.
  manager_->OnResidencyLost(id, "cpu:0", absl::UnavailableError("late"));
  EXPECT_THAT(manager_->Status("m", "1")->cards, ElementsAre("cpu:0", "cpu:1"));
}

TEST_F(ManagerLifeTest, AResidentThatIsLostWhileTheOthersLoadIsLeftOut) {
  Put("m", 1);
  Make(2);
  pool_->card(1).on_load = [&](const cards::ExecutableSpec& spec) {
    if (spec.label == "m/1") {
      manager_->OnResidencyLost(spec.id, "cpu:0", absl::UnavailableError("gone"));
    }
    return absl::OkStatus();
  };
  manager_->Start();
  ExpectState("m", 1, kReady);
  EXPECT_THAT(manager_->Status("m", "1")->cards, ElementsAre("cpu:1"));
  EXPECT_EQ(Queue("m", 1)->cards().load(), 2u);
}

TEST_F(ManagerLifeTest, ReadinessWaitsForTheStartAndForNothingElse) {
  Put("m", 1);
  Put("broken", 1, "nonsense: [\n");
  Gate start, later;
  store_.on_get = [&](const auto& request, const auto&, const auto&) {
    (request.label == "m/1" ? start : later).Pass();
    return absl::OkStatus();
  };
  Make(2);
  EXPECT_FALSE(manager_->Ready());
  manager_->Start();
  ASSERT_TRUE(start.AwaitArrivals(1));
  ExpectState("echo", 1, kReady);
  EXPECT_FALSE(manager_->Ready());
  start.Open();
  ExpectState("m", 1, kReady);
  ExpectState("broken", 1, kFailed);  // has ended: waiting longer helps nobody
  EXPECT_TRUE(manager_->Ready());

  Put("m", 2);
  Put("other", 1);
  EXPECT_TRUE(manager_->LoadModel("m").ok());
  EXPECT_TRUE(manager_->LoadModel("other").ok());
  ASSERT_TRUE(later.AwaitArrivals(2));
  EXPECT_TRUE(manager_->Ready());
  later.Open();
  ExpectState("m", 2, kReady);
  ExpectState("other", 1, kReady);
  EXPECT_TRUE(manager_->Ready());

  pool_->card(0).current = cards::CardState::kRestarting;
  EXPECT_TRUE(manager_->Ready());
  pool_->card(1).current = cards::CardState::kRestarting;
  EXPECT_FALSE(manager_->Ready());
  pool_->card(1).current = cards::CardState::kReady;
  EXPECT_TRUE(manager_->Ready());
  EXPECT_TRUE(manager_->Unload("m", "").ok());
  ExpectState("m", 2, kUnloaded);
  EXPECT_TRUE(manager_->Ready());
  manager_->Drain(absl::ZeroDuration());
  EXPECT_FALSE(manager_->Ready());
}

TEST_F(ManagerLifeTest, ARequiredModelWhoseOnlyCardIsDownIsNotReady) {
  Put("m", 1, "cards: [\"cpu:1\"]\n");
  Start(2);
  ExpectState("m", 1, kReady);
  ExpectState("echo", 1, kReady);
  EXPECT_TRUE(manager_->Ready());
  pool_->card(1).current = cards::CardState::kRestarting;
  EXPECT_FALSE(manager_->Ready());
}

TEST_F(ManagerLifeTest, DrainingRefusesEverythingNewAndWaitsForTheOld) {
  Put("m", 1);
  Start(1);
  ExpectState("m", 1, kReady);
  CollectingSink sink;
  const auto queue = Queue("m", 1);
  const auto job = Submit(queue, &sink);
  manager_->Drain(absl::ZeroDuration());  // does not wait, and answers nothing
  EXPECT_EQ(sink.count(), 0u);
  EXPECT_EQ(manager_->LoadModel("m").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(catalog_.Resolve("m", "").status().code(), absl::StatusCode::kUnavailable);
  const auto refused = dispatcher_.Submit(MakeJob(queue, {1, 4}, 0, &sink));
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(IsRetired(refused));
  EXPECT_EQ(State("m", 1), kDraining);
  std::thread answers([&] { dispatcher_.Cancel(job); });
  manager_->Drain(kPatience);  // returns when the last is answered
  EXPECT_EQ(sink.count(), 1u);
  answers.join();
}

TEST_F(ManagerLifeTest, TheEndAnswersWhatStillWaits) {
  Put("m", 1);
  Start(1);
  ExpectState("m", 1, kReady);
  CollectingSink sink;
  Submit(Queue("m", 1), &sink);
  ASSERT_TRUE(manager_->Unload("m", "").ok());  // drains, for up to half a minute
  Stop();
  ASSERT_EQ(sink.count(), 1u);
  EXPECT_EQ(sink.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ManagerLifeTest, WaitHasATimeout) {
  Put("m", 1);
  Gate gate;
  store_.on_get = [&](const auto&, const auto&, const auto&) {
    gate.Pass();
    return absl::OkStatus();
  };
  Start(1);
  ASSERT_TRUE(gate.AwaitArrivals(1));
  const auto waited = manager_->Wait("m", "1", absl::ZeroDuration());
  EXPECT_EQ(waited.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(waited.status().message()), HasSubstr("COMPILING"));
  EXPECT_EQ(manager_->Wait("m", "2", kPatience).status().code(), absl::StatusCode::kNotFound);
  gate.Open();
  ExpectState("m", 1, kReady);
}

TEST_F(ManagerLifeTest, ManyVersionsAreForgottenButTheirBytesAreNot) {
  Start(1);
  const int last = static_cast<int>(kKeepEnded) + 5;
  for (int i = 1; i <= last; ++i) {
    Put("m", i);
    ASSERT_TRUE(manager_->LoadModel("m").ok());
    ExpectState("m", i, kReady);
    ASSERT_TRUE(i == 1 || Await([&] {
      const auto status = manager_->Status("m", std::to_string(i - 1));
      return !status.ok() || status->state == kUnloaded;
    }));
  }
  EXPECT_TRUE(Await([&] { return !catalog_.Find("m", "1").ok(); }));
  EXPECT_EQ(manager_->Status("m", "1").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Await([&] { return manager_->StatusOfAll().size() <= kKeepEnded + 2; }));
  tree_.Write("models/m/1/model.pt2", "other bytes");
  EXPECT_EQ(manager_->LoadPath(tree_.Path("models/m/1"), "", 0).status().code(),
            absl::StatusCode::kAlreadyExists);
  tree_.Write("models/m/1/model.pt2", "m1");
  EXPECT_TRUE(manager_->LoadPath(tree_.Path("models/m/1"), "", 0).ok());
}

TEST_F(ManagerLifeTest, StatusOfAllIsInOrder) {
  options_.policy = VersionPolicy::kAll;
  Put("m", 9);
  Put("m", 10);
  Put("a", 1);
  Start(1);
  std::vector<std::string> names;
  for (const auto& status : manager_->StatusOfAll()) {
    names.push_back(status.model + "/" + status.version);
  }
  EXPECT_THAT(names, ElementsAre("a/1", "echo/1", "m/9", "m/10"));
}

}  // namespace
}  // namespace belfry::serving
