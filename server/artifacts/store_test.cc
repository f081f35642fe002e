// The store with a stand-in for the compiler that behaves as the "model" says
// (testdata/stand_in); store_compile_test.cc runs the real one.
#include "server/artifacts/store.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/artifacts/testing.h"
#include "server/telemetry/metrics.h"

namespace belfry::artifacts {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.dir = folder_ / "artifacts";
    options_.python = BELFRY_PLAIN_PYTHON;
    options_.compiler_dir = BELFRY_STAND_IN_DIR;
    options_.metrics = &metrics_;
    options_.files = &FileSystem::RealUnsynced();
  }
  std::unique_ptr<ArtifactStore> Open() {
    auto store = ArtifactStore::Open(options_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  // A "model" whose words tell the stand-in what to do.
  CompileRequest Model(std::string_view words, const std::string& name = "model") {
    WriteText(folder_ / name, words);
    CompileRequest request;
    request.model_path = folder_ / name;
    request.target = "cpu";
    request.options_json = R"({"precision":"float32"})";
    request.driver = {
        {"driver", "cpu/1"}, {"arch", "any"}, {"isa", "default"}, {"torch", "9.9.9"}};
    request.label = "m/1";
    return request;
  }
  absl::StatusOr<std::shared_ptr<ArtifactRef>> Get(ArtifactStore& store,
                                                   const CompileRequest& request) {
    return store.Get(request, nullptr, nullptr);
  }
  absl::Status Fail(std::string_view words) {
    auto store = Open();
    const auto got = Get(*store, Model(words));
    EXPECT_FALSE(got.ok()) << words;
    ExpectNothingLeft();
    return got.status();
  }
  void ExpectNothingLeft() {
    const std::vector<std::string> names =
        FileSystem::RealUnsynced().List(options_.dir).value();
    for (const std::string& name : names) {
      EXPECT_TRUE(name == ".lock" || name == "logs" || IsKey(name)) << name;
    }
  }
  size_t Compiles() { return ReadText(folder_ / "compiles").size(); }

  TempFolder folder_;
  telemetry::Metrics metrics_;
  StoreOptions options_;
};

TEST_F(StoreTest, CompilesOnceThenHits) {
  const CompileRequest request = Model("ok");
  {
    auto store = Open();
    std::vector<std::string> stages;
    auto first = store->Get(
        request, [&](const CompileProgress& p) { stages.push_back(p.stage); }, nullptr);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_FALSE((*first)->was_cached());
    EXPECT_EQ((*first)->manifest().target, "cpu");
    EXPECT_EQ(ReadText((*first)->dir() + "/data/code.bin"), "okokokokokokokokokok");
    EXPECT_THAT(stages, ::testing::Contains("load"));
    auto second = Get(*store, request);
    ASSERT_TRUE(second.ok());
    EXPECT_TRUE((*second)->was_cached());
    ExpectNothingLeft();
  }
  auto store = Open();  // and after a restart
  auto third = Get(*store, request);
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_TRUE((*third)->was_cached());
  EXPECT_EQ(Compiles(), 1u);
  EXPECT_EQ(store->GetUsage().hits, 1u);
  EXPECT_EQ(store->GetUsage().artifacts, 1u);
  const std::string text = metrics_.Render();
  EXPECT_THAT(text, HasSubstr("belfry_cache_hits_total{target=\"cpu\"} 2"));
  EXPECT_THAT(text, HasSubstr("belfry_cache_misses_total{target=\"cpu\"} 1"));
  EXPECT_THAT(text, HasSubstr("belfry_compiles_total{target=\"cpu\",result=\"ok\"} 1"));
}

TEST_F(StoreTest, PathAndTimeAreNotInTheKey) {
  auto store = Open();
  auto one = Get(*store, Model("ok", "one"));
  auto two = Get(*store, Model("ok", "two"));
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ((*one)->dir(), (*two)->dir());
  CompileRequest other = Model("ok", "one");
  other.options_json = R"({"precision":"float32","rtol":0.1})";
  auto three = Get(*store, other);
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_NE((*one)->dir(), (*three)->dir());
}

TEST_F(StoreTest, ErrorsCarryTheCompilersWords) {
  EXPECT_THAT(Fail("fail uncompilable no such operator"),
              AllOf(::testing::Property(&absl::Status::code, absl::StatusCode::kFailedPrecondition),
                    ::testing::ResultOf(Message<absl::Status>, "no such operator")));
  EXPECT_TRUE(absl::IsFailedPrecondition(Fail("fail tolerance off by 0.3")));
  EXPECT_TRUE(absl::IsFailedPrecondition(Fail("fail bad_model not a zip")));
  EXPECT_TRUE(absl::IsInvalidArgument(Fail("fail bad_options batch_axis.y")));
  const absl::Status internal = Fail("fail internal KeyError: 3");
  EXPECT_TRUE(absl::IsInternal(internal));
  EXPECT_THAT(Message(internal), AllOf(HasSubstr("KeyError: 3"), HasSubstr("words for people")));
  EXPECT_TRUE(absl::IsResourceExhausted(Fail("fail internal MemoryError")));
  EXPECT_TRUE(absl::IsResourceExhausted(Fail("fail internal No space left on device")));
}

TEST_F(StoreTest, EndsWithoutAResultAreErrors) {
  EXPECT_THAT(Message(Fail("exit 3")),
              AllOf(HasSubstr("exit code 3"), HasSubstr("stage load"), HasSubstr("it ends here")));
  EXPECT_THAT(Message(Fail("signal 9")), HasSubstr("signal 9"));
  EXPECT_THAT(Message(Fail("signal 11")), HasSubstr("signal 11"));
  EXPECT_THAT(Message(Fail("abort")), HasSubstr("signal 6"));
  EXPECT_THAT(Message(Fail("silent")), HasSubstr("exit code 0"));
  EXPECT_THAT(Message(Fail("wrong-key")), HasSubstr("00000"));
}

TEST_F(StoreTest, WhatTheCompilerWroteIsVerified) {
  EXPECT_THAT(Message(Fail("torn")), HasSubstr("not whole: data/code.bin"));
  EXPECT_THAT(Message(Fail("extra")), HasSubstr("stray"));
}

TEST_F(StoreTest, GarbageOnStdoutDoesNotMatter) {
  auto store = Open();
  EXPECT_TRUE(Get(*store, Model("garbage")).ok());
}

TEST_F(StoreTest, FailuresAreNotKept) {
  auto store = Open();
  const CompileRequest request = Model("fail uncompilable no");
  EXPECT_FALSE(Get(*store, request).ok());
  EXPECT_EQ(Compiles(), 1u);  // not tried again by itself
  EXPECT_FALSE(Get(*store, request).ok());
  EXPECT_EQ(Compiles(), 2u);  // but when asked again
}

TEST_F(StoreTest, ModelThatChangesMeanwhileIsNotPublished) {
  EXPECT_TRUE(absl::IsAborted(Fail("changed")));
}

TEST_F(StoreTest, MemoryBombIsStopped) {
  options_.compile_memory_bytes = 256 << 20;
  const absl::Status one = Fail("memory");
  EXPECT_TRUE(absl::IsResourceExhausted(one)) << one;
  EXPECT_THAT(Message(one), HasSubstr("256 MiB"));
  const absl::Status many = Fail("memory-tree");
  EXPECT_TRUE(absl::IsResourceExhausted(many)) << many;
}

TEST_F(StoreTest, TimeoutKillsAndSaysWhere) {
  options_.compile_timeout = absl::Seconds(2);
  const absl::Status status = Fail("hang");
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(Message(status), AllOf(HasSubstr("2s"), HasSubstr("stage inductor")));
}

TEST_F(StoreTest, NothingOutlivesAGoodCompile) {
  auto store = Open();
  EXPECT_TRUE(Get(*store, Model("leave")).ok());
  ExpectNothingLeft();
}

TEST_F(StoreTest, EnvironmentIsClean) {
  setenv("BELFRY_SECRET", "x", 1);
  setenv("TORCHINDUCTOR_X", "x", 1);
  auto store = Open();
  ASSERT_TRUE(Get(*store, Model("environment")).ok());
  const auto env = nlohmann::json::parse(ReadText(folder_ / "model.note"));
  EXPECT_FALSE(env.contains("BELFRY_SECRET"));
  EXPECT_FALSE(env.contains("TORCHINDUCTOR_X"));
  EXPECT_EQ(env["nice"], 19);
  EXPECT_EQ(env["stdin"], "");
  // Its temporary files lie in the work folder, which is gone.
  EXPECT_THAT(env["TMPDIR"].get<std::string>(), HasSubstr(options_.dir));
  EXPECT_FALSE(Exists(env["TMPDIR"].get<std::string>()));
}

TEST_F(StoreTest, LogIsKept) {
  auto store = Open();
  Get(*store, Model("exit 1")).status().IgnoreError();
  const std::vector<std::string> logs =
      FileSystem::RealUnsynced().List(options_.dir + "/logs").value();
  ASSERT_EQ(logs.size(), 1u);
  EXPECT_THAT(ReadText(options_.dir + "/logs/" + logs[0]), HasSubstr("it ends here"));
}

TEST_F(StoreTest, MissingInterpreterIsNamed) {
  options_.python = "/no/such/python";
  EXPECT_THAT(Message(Fail("ok")), HasSubstr("/no/such/python"));
  options_.python = "";
  EXPECT_TRUE(absl::IsNotFound(Fail("ok")));
  options_.python = BELFRY_PLAIN_PYTHON;
  options_.compiler_dir = folder_.path();
  EXPECT_THAT(Message(Fail("ok")), HasSubstr("No module named"));
}

TEST_F(StoreTest, OtherTorchIsRefusedBeforeCompiling) {
  auto store = Open();
  CompileRequest request = Model("ok");
  request.driver["torch"] = "8.8.8";
  const auto got = Get(*store, request);
  EXPECT_TRUE(absl::IsFailedPrecondition(got.status()));
  EXPECT_THAT(Message(got.status()), AllOf(HasSubstr("8.8.8"), HasSubstr("9.9.9")));
  EXPECT_EQ(Compiles(), 0u);
}

TEST_F(StoreTest, DamagedIsCompiledAgainAndCounted) {
  const CompileRequest request = Model("ok");
  std::string dir;
  {
    auto store = Open();
    dir = (*Get(*store, request))->dir();
  }
  WriteText(dir + "/data/code.bin", "xxxxxxxxxxxxxxxxxxxx");
  auto store = Open();
  auto got = Get(*store, request);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_FALSE((*got)->was_cached());
  EXPECT_EQ(store->GetUsage().damaged, 1u);
  EXPECT_EQ(ReadText(dir + "/data/code.bin"), "okokokokokokokokokok");
}

// --- Many askers ---

class FlightTest : public StoreTest {
 protected:
  // Lets the compiles that wait go on.
  void Go() { WriteText(folder_ / "go", ""); }
};

TEST_F(FlightTest, ManyAskersOneCompile) {
  auto store = Open();
  const CompileRequest request = Model("wait");
  std::vector<std::thread> askers;
  std::vector<std::string> dirs(8);
  std::atomic<int> told{0};
  for (size_t i = 0; i < dirs.size(); ++i) {
    askers.emplace_back([&, i] {
      std::atomic<bool> once{false};
      auto got = store->Get(
          request,
          [&](const CompileProgress& p) {
            if (p.stage == "inductor" && !once.exchange(true) && ++told == 8) Go();
          },
          nullptr);
      if (got.ok()) dirs[i] = (*got)->dir();
    });
  }
  for (auto& t : askers) t.join();
  EXPECT_EQ(Compiles(), 1u);
  for (const std::string& dir : dirs) EXPECT_EQ(dir, dirs[0]);
  EXPECT_NE(dirs[0], "");
}

TEST_F(FlightTest, OneWhoLeavesDoesNotStopTheOthers) {
  auto store = Open();
  const CompileRequest request = Model("wait");
  absl::Notification begun, left;
  std::thread stays([&] {
    auto got = store->Get(
        request,
        [&](const CompileProgress& p) {
          if (p.stage == "inductor" && !begun.HasBeenNotified()) begun.Notify();
        },
        nullptr);
    EXPECT_TRUE(got.ok()) << got.status();
  });
  begun.WaitForNotification();
  const auto got = store->Get(request, nullptr, [] { return true; });
  EXPECT_TRUE(absl::IsCancelled(got.status()));
  Go();
  stays.join();
  EXPECT_EQ(Compiles(), 1u);
}

TEST_F(FlightTest, TheLastOneWhoLeavesKillsTheCompile) {
  auto store = Open();
  const CompileRequest request = Model("hang");
  std::atomic<bool> running{false};
  const auto got = store->Get(
      request, [&](const CompileProgress& p) { running = running || p.stage == "inductor"; },
      [&] { return running.load(); });
  EXPECT_TRUE(absl::IsCancelled(got.status())) << got.status();
  // Somebody who asks now waits until it is gone and starts anew.
  running = false;
  const auto again = store->Get(
      request, [&](const CompileProgress& p) { running = running || p.stage == "inductor"; },
      [&] { return running.load(); });
  EXPECT_TRUE(absl::IsCancelled(again.status()));
  EXPECT_EQ(Compiles(), 2u);
  store.reset();
  ExpectNothingLeft();
}

TEST_F(FlightTest, DestroyingTheStoreKillsAndReleases) {
  auto store = Open();
  const CompileRequest request = Model("hang");
  absl::Notification begun;
  absl::Status status;
  std::thread asker([&] {
    status = store
                 ->Get(request,
                       [&](const CompileProgress& p) {
                         if (p.stage == "inductor" && !begun.HasBeenNotified()) begun.Notify();
                       },
                       nullptr)
                 .status();
  });
  begun.WaitForNotification();
  ArtifactStore* raw = store.release();
  delete raw;  // waits for the asker to be out
  asker.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  ExpectNothingLeft();
}

TEST_F(FlightTest, FailureIsShared) {
  auto store = Open();
  std::atomic<int> failed{0};
  std::vector<std::thread> askers;
  const CompileRequest request = Model("fail uncompilable no");
  for (int i = 0; i < 4; ++i) {
    askers.emplace_back([&] { failed += !Get(*store, request).ok(); });
  }
  for (auto& t : askers) t.join();
  EXPECT_EQ(failed, 4);
  EXPECT_LE(Compiles(), 4u);
}

TEST_F(FlightTest, ParallelCompilesAreLimited) {
  auto store = Open();  // one at a time
  absl::Notification begun, queued;
  std::thread first([&] {
    EXPECT_TRUE(store->Get(Model("wait", "a"),
                           [&](const CompileProgress& p) {
                             if (p.stage == "inductor" && !begun.HasBeenNotified()) begun.Notify();
                           },
                           nullptr)
                    .ok());
  });
  begun.WaitForNotification();
  std::thread second([&] {
    EXPECT_TRUE(store->Get(Model("ok", "b"),
                           [&](const CompileProgress& p) {
                             if (p.stage == "queued" && !queued.HasBeenNotified()) queued.Notify();
                           },
                           nullptr)
                    .ok());
  });
  queued.WaitForNotification();
  EXPECT_EQ(Compiles(), 1u);
  Go();
  first.join();
  second.join();
}

// --- Without a compiler ---

TEST_F(StoreTest, ArtifactsOnlyServesWhatAnyCompilerMade) {
  const CompileRequest request = Model("ok");
  { ASSERT_TRUE(Get(*Open(), request).ok()); }
  options_.artifacts_only = true;
  options_.python = "";
  auto store = Open();
  auto got = Get(*store, request);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE((*got)->was_cached());
  CompileRequest other = request;
  other.driver["torch"] = "8.8.8";
  const auto missing = Get(*store, other);
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(Message(missing.status()),
              AllOf(HasSubstr("m/1"), HasSubstr("torch=8.8.8"),
                    HasSubstr("torch: cached '9.9.9', asked for '8.8.8'"), Not(HasSubstr("?"))));
}

TEST_F(StoreTest, ArtifactsOnlyTakesTheNewest) {
  options_.artifacts_only = true;
  ASSERT_TRUE(FileSystem::RealUnsynced().CreateDir(options_.dir).ok());
  const CompileRequest request = Model("ok");
  std::string newest;
  for (const char* compiler : {"c/1", "c/2", "c/3"}) {
    const std::string scratch = folder_ / absl::StrCat("made-", compiler + 2);
    newest = WriteArtifact(scratch, "ok", "payload", compiler).hex;
    ASSERT_TRUE(FileSystem::RealUnsynced().Touch(scratch + "/manifest.json").ok());
    ASSERT_TRUE(
        FileSystem::RealUnsynced().Rename(scratch, JoinPath(options_.dir, newest)).ok());
  }
  auto store = Open();
  auto got = Get(*store, request);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)->manifest().key, newest);
  // When that one is damaged, the next serves; nothing is removed.
  store.reset();
  got = absl::UnknownError("dropped");
  WriteText(JoinPath(options_.dir, newest) + "/data/code.bin", "xxxxxxx");
  store = Open();
  auto next = Get(*store, request);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_NE((*next)->manifest().key, newest);
  EXPECT_TRUE(Exists(JoinPath(options_.dir, newest)));
}

TEST_F(StoreTest, BrokenCompilerDoesNotStopAWarmCache) {
  const CompileRequest request = Model("ok");
  { ASSERT_TRUE(Get(*Open(), request).ok()); }
  options_.compiler_dir = folder_.path();
  auto store = Open();
  auto got = Get(*store, request);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE((*got)->was_cached());
}

TEST_F(StoreTest, ExplainsAMiss) {
  auto store = Open();
  CompileRequest request = Model("ok");
  EXPECT_THAT(store->ExplainMiss(request).value(), HasSubstr("no artifact of a model"));
  const std::string key = (*Get(*store, request))->manifest().key;
  EXPECT_EQ(store->ExplainMiss(request).value(), "cached as " + key);
  request.driver["isa"] = "avx512";
  request.options_json = R"({"precision":"float32","rtol":0.001})";
  EXPECT_EQ(store->ExplainMiss(request).value(),
            "isa: cached 'default', asked for 'avx512'\n"
            "options.rtol: cached nothing, asked for '0.001'");
}

// --- A build host ---

TEST_F(StoreTest, FolderFromABuildHostServesElsewhere) {
  const CompileRequest request = Model("ok");
  for (bool knows_driver : {true, false}) {
    TempFolder build;
    WriteText(build / "tmp-of-somebody", "stays");
    CompileRequest asked = request;
    if (!knows_driver) asked.driver.clear();
    const auto key = CompileToFolder(asked, options_, build.path(), nullptr);
    ASSERT_TRUE(key.ok()) << key.status();
    EXPECT_TRUE(Exists(build / (*key + "/manifest.json")));
    EXPECT_EQ(ReadText(build / "tmp-of-somebody"), "stays");
    // Again: it is there already.
    EXPECT_EQ(CompileToFolder(asked, options_, build.path(), nullptr).value(), *key);

    TempFolder host;
    ASSERT_EQ(system(absl::StrCat("cp -r '", build / *key, "' '", host.path(), "/'").c_str()), 0);
    StoreOptions there = options_;
    there.dir = host.path();
    there.artifacts_only = true;
    there.python = "";
    auto store = ArtifactStore::Open(there);
    ASSERT_TRUE(store.ok());
    auto got = Get(**store, request);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ((*got)->manifest().key, *key);
  }
}

TEST_F(StoreTest, BuildHostTellsTheCompilersError) {
  TempFolder build;
  const auto key =
      CompileToFolder(Model("fail uncompilable no"), options_, build.path(), nullptr);
  EXPECT_EQ(Message(key.status()), "no");
}

}  // namespace
}  // namespace belfry::artifacts
