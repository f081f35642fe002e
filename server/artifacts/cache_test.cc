#include "server/artifacts/cache.h"

#include <sys/stat.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/artifacts/folder.h"
#include "server/artifacts/testing.h"
#include "server/base/fault_files.h"

namespace belfry::artifacts {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CacheTest : public ::testing::Test {
 protected:
  std::shared_ptr<Cache> Open(uint64_t quota = UINT64_MAX, bool keep_all = false) {
    auto cache = Cache::Open({.dir = folder_.path(), .quota_bytes = quota, .keep_all = keep_all},
                             FileSystem::RealUnsynced(), &metrics_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return cache.ok() ? *cache : nullptr;
  }
  // Makes an artifact in a work folder and publishes it.
  absl::StatusOr<std::shared_ptr<PinnedArtifact>> Add(Cache& cache, std::string_view model,
                                                      size_t size = 100) {
    const std::string work = cache.NewWorkFolder().value();
    const ArtifactKey key = WriteArtifact(work + "/out", model, std::string(size, 'p'));
    auto made = cache.Publish(work + "/out", key.hex);
    EXPECT_TRUE(FileSystem::RealUnsynced().RemoveTree(work).ok());
    return made;
  }
  std::string KeyOf(std::string_view model) {
    TempFolder scratch;
    return WriteArtifact(scratch / "a", model).hex;
  }

  TempFolder folder_;
  telemetry::Metrics metrics_;
};

TEST_F(CacheTest, PublishedArtifactIsFoundNowAndAfterReopening) {
  const std::string key = KeyOf("m");
  {
    auto cache = Open();
    EXPECT_TRUE(absl::IsNotFound(cache->Find(key).status()));
    auto made = Add(*cache, "m");
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ((*made)->dir(), folder_ / key);
    EXPECT_EQ((*made)->manifest().key, key);
    EXPECT_TRUE(cache->Find(key).ok());
    EXPECT_GT(cache->bytes(), 100u);
  }
  auto cache = Open();
  auto found = cache->Find(key);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(ReadText((*found)->dir() + "/data/code.bin"), std::string(100, 'p'));
  EXPECT_THAT(metrics_.Render(), HasSubstr(absl::StrCat("belfry_cache_bytes ", cache->bytes())));
}

TEST_F(CacheTest, SumFileIsWhatSha256sumWrites) {
  auto cache = Open();
  auto made = Add(*cache, "m");
  const std::string check =
      absl::StrCat("cd '", (*made)->dir(), "' && sha256sum --quiet -c manifest.sha256");
  EXPECT_EQ(system(check.c_str()), 0);
}

TEST_F(CacheTest, SecondProcessIsRefused) {
  auto first = Open();
  auto second = Cache::Open({.dir = folder_.path()}, FileSystem::RealUnsynced(), nullptr);
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_THAT(Message(second.status()), HasSubstr(folder_.path()));
  first.reset();
  EXPECT_TRUE(Cache::Open({.dir = folder_.path()}, FileSystem::RealUnsynced(), nullptr).ok());
}

TEST_F(CacheTest, CopiedFolderIsAdoptedWithoutRestart) {
  auto cache = Open(UINT64_MAX);
  TempFolder elsewhere;
  const std::string key = WriteArtifact(elsewhere / "x", "m").hex;
  ASSERT_TRUE(FileSystem::RealUnsynced().Rename(elsewhere / "x", folder_ / key).ok());
  auto found = cache->Find(key);
  ASSERT_TRUE(found.ok()) << found.status();
  // From here on its manifest is covered by a sum.
  EXPECT_TRUE(Exists(folder_ / (key + "/manifest.sha256")));
}

struct Damage {
  const char* what;
  std::function<void(const std::string& dir)> inflict;
  const char* said;
};

TEST_F(CacheTest, DamageIsFoundAtFirstUse) {
  const Damage kDamages[] = {
      {"a flipped byte",
       [](auto& dir) { WriteText(dir + "/data/code.bin", std::string(99, 'p') + "q"); }, "sum"},
      {"cut short", [](auto& dir) { WriteText(dir + "/data/code.bin", "pp"); }, "2 bytes"},
      {"a file gone",
       [](auto& dir) {
         FileSystem::RealUnsynced().RemoveTree(dir + "/data/code.bin").IgnoreError();
       },
       "not there"},
      {"a folder in its place",
       [](auto& dir) {
         FileSystem::RealUnsynced().RemoveTree(dir + "/data/code.bin").IgnoreError();
         FileSystem::RealUnsynced().CreateDir(dir + "/data/code.bin").IgnoreError();
       },
       "not a plain file"},
      {"a link in its place",
       [](auto& dir) {
         FileSystem::RealUnsynced().RemoveTree(dir + "/data/code.bin").IgnoreError();
         ASSERT_EQ(symlink("/etc/hostname", (dir + "/data/code.bin").c_str()), 0);
       },
       "not a plain file"},
      {"the manifest gone",
       [](auto& dir) {
         FileSystem::RealUnsynced().RemoveTree(dir + "/manifest.json").IgnoreError();
       },
       "manifest.json is not there"},
      {"the manifest changed",
       [](auto& dir) { WriteText(dir + "/manifest.json", ReadText(dir + "/manifest.json") + " "); },
       "manifest.sha256 says otherwise"},
      {"the manifest is rubbish, its sum too",
       [](auto& dir) {
         WriteText(dir + "/manifest.json", "{}");
         FileSystem::RealUnsynced().RemoveTree(dir + "/manifest.sha256").IgnoreError();
       },
       "format"},
  };
  for (bool keep_all : {false, true}) {
    for (const Damage& damage : kDamages) {
      std::string key;
      {
        auto cache = Open();
        auto made = Add(*cache, "m");
        ASSERT_TRUE(made.ok()) << made.status();
        key = (*made)->manifest().key;
      }
      damage.inflict(folder_ / key);
      auto cache = Open(UINT64_MAX, keep_all);
      const auto found = cache->Find(key);
      EXPECT_TRUE(absl::IsDataLoss(found.status())) << damage.what << found.status();
      EXPECT_THAT(Message(found.status()), HasSubstr(damage.said)) << damage.what;
      EXPECT_EQ(cache->GetTotals().damaged, 1u);
      EXPECT_EQ(Exists(folder_ / key), keep_all) << damage.what;
      cache.reset();
      ASSERT_TRUE(FileSystem::RealUnsynced().RemoveTree(folder_ / key).ok());
    }
  }
}

TEST_F(CacheTest, PublishRefusesWhatIsNotWhole) {
  auto cache = Open();
  const std::string work = cache->NewWorkFolder().value();
  const std::string key = WriteArtifact(work + "/out", "m").hex;
  EXPECT_THAT(Message(cache->Publish(work + "/out", std::string(64, '0')).status()),
              HasSubstr("expected 0000"));
  WriteText(work + "/out/stray", "x");
  EXPECT_THAT(Message(cache->Publish(work + "/out", key).status()), HasSubstr("stray"));
  EXPECT_FALSE(Exists(folder_ / key));
}

TEST_F(CacheTest, QuotaEvictsLeastRecentlyUsedNeverPinned) {
  auto cache = Open(4000);
  auto a = Add(*cache, "a");  // about 1.5 KB each with its manifest
  ASSERT_TRUE(a.ok());
  const std::string key_a = (*a)->manifest().key;
  const uint64_t one = cache->bytes();
  ASSERT_GT(one * 3, 4000u);
  ASSERT_LT(one * 2, 4000u);
  const std::string key_b = (*Add(*cache, "b"))->manifest().key;  // not pinned any more
  const std::string key_c = (*Add(*cache, "c"))->manifest().key;
  // a was least recently used but is pinned.
  EXPECT_TRUE(Exists(folder_ / key_a));
  EXPECT_FALSE(Exists(folder_ / key_b));
  EXPECT_TRUE(Exists(folder_ / key_c));
  a->reset();  // used until now
  const std::string key_d = (*Add(*cache, "d"))->manifest().key;
  EXPECT_TRUE(Exists(folder_ / key_a));
  EXPECT_FALSE(Exists(folder_ / key_c));
  EXPECT_EQ(cache->GetTotals().evictions, 2u);
  EXPECT_THAT(metrics_.Render(), HasSubstr("belfry_cache_evictions_total 2"));
}

TEST_F(CacheTest, LastUseSurvivesARestart) {
  std::string first, second;
  {
    auto cache = Open();
    first = (*Add(*cache, "a"))->manifest().key;
    second = (*Add(*cache, "b"))->manifest().key;
    // Made first, used last.
    ASSERT_TRUE(cache->Find(first).ok());
  }
  auto cache = Open(2000);
  EXPECT_TRUE(Exists(folder_ / first));
  EXPECT_FALSE(Exists(folder_ / second));
}

TEST_F(CacheTest, LargerThanTheQuotaIsServedWhileUsed) {
  auto cache = Open(2000);
  const std::string small = (*Add(*cache, "small"))->manifest().key;
  auto big = Add(*cache, "big", 5000);
  ASSERT_TRUE(big.ok());
  const std::string dir = (*big)->dir();
  EXPECT_TRUE(Exists(dir));
  EXPECT_TRUE(Exists(folder_ / small));
  big->reset();
  EXPECT_FALSE(Exists(dir));
  EXPECT_TRUE(Exists(folder_ / small));
}

TEST_F(CacheTest, KeepAllNeverRemoves) {
  { Add(*Open(), "a").status().IgnoreError(); }
  auto cache = Open(1, /*keep_all=*/true);
  EXPECT_EQ(cache->GetTotals().artifacts, 1u);
}

TEST_F(CacheTest, KeepAllStartsWithNothing) {
  auto cache = Cache::Open({.dir = folder_ / "new/artifacts", .keep_all = true},
                           FileSystem::RealUnsynced(), nullptr);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_TRUE(absl::IsNotFound((*cache)->Find(std::string(64, 'a')).status()));
}

TEST_F(CacheTest, RemovedByHandIsNotFound) {
  auto cache = Open();
  const std::string key = (*Add(*cache, "a"))->manifest().key;
  ASSERT_TRUE(FileSystem::RealUnsynced().RemoveTree(folder_ / key).ok());
  EXPECT_TRUE(absl::IsNotFound(cache->Find(key).status()));
  EXPECT_EQ(cache->GetTotals().artifacts, 0u);
  EXPECT_TRUE(Add(*cache, "a").ok());
}

TEST_F(CacheTest, SweepsWhatACrashLeft) {
  ASSERT_TRUE(FileSystem::RealUnsynced().CreateDir(folder_ / "tmp-abc/out").ok());
  auto cache = Open();
  EXPECT_FALSE(Exists(folder_ / "tmp-abc"));
}

TEST_F(CacheTest, PinsOutliveTheCachesOwner) {
  auto cache = Open();
  auto made = Add(*cache, "a");
  cache->Close();
  cache.reset();
  EXPECT_TRUE(Exists((*made)->dir()));
  made->reset();
}

// --- Crashes: at every step, with every kind of loss ---

using Loss = FaultFileSystem::Loss;

// What a scenario does on the faulty files; it may fail at any step.
using Scenario = std::function<void(FaultFileSystem& files, const std::string& dir)>;

// Runs 'scenario' with a crash before, in and after each of its steps, and then
// demands that a restart finds each of the keys whole or not at all.
void CrashEverywhere(const Scenario& prepare, const Scenario& scenario,
                     const std::vector<std::string>& keys,
                     const std::vector<std::string>& must_stay) {
  int steps = 0;
  {
    TempFolder folder;
    FaultFileSystem files(folder / "d");
    prepare(files, folder / "d");
    files.CrashAt(-1);  // counts only
    scenario(files, folder / "d");
    steps = files.operations();
    EXPECT_FALSE(files.crashed());
  }
  ASSERT_GT(steps, 3);
  int found_after = 0;
  for (int step = 0; step <= steps; ++step) {
    for (int round = 0; round < 10; ++round) {
      TempFolder folder;
      const std::string dir = folder / "d";
      FaultFileSystem files(dir, static_cast<uint32_t>(step * 100 + round));
      prepare(files, dir);
      files.CrashAt(step);
      scenario(files, dir);
      files.Restart(round == 0 ? Loss::kNothing : round == 1 ? Loss::kEverything : Loss::kCoin);
      auto cache = Cache::Open({.dir = dir}, files, nullptr);
      ASSERT_TRUE(cache.ok()) << cache.status();
      for (const std::string& key : keys) {
        const auto found = (*cache)->Find(key);
        ASSERT_TRUE(found.ok() || absl::IsNotFound(found.status()))
            << "crash at step " << step << ", round " << round << ": " << found.status();
        found_after += found.ok();
      }
      for (const std::string& key : must_stay) EXPECT_TRUE((*cache)->Find(key).ok());
      EXPECT_EQ((*cache)->GetTotals().damaged, 0u);
      const std::vector<std::string> names = files.List(dir).value();
      for (const std::string& name : names) {
        EXPECT_EQ(name.find("tmp-"), std::string::npos) << "left behind: " << name;
      }
      // And the cache still works.
      const auto work = (*cache)->NewWorkFolder();
      ASSERT_TRUE(work.ok());
      const std::string key = WriteArtifact(*work + "/out", "next").hex;
      EXPECT_TRUE((*cache)->Publish(*work + "/out", key).ok());
    }
  }
  EXPECT_GT(found_after, 0);  // some crashes came after the deed
}

// The compiler writes past the file system, as a process of its own does.
void Publish(FaultFileSystem& files, const std::string& dir, std::string_view model,
             uint64_t quota = UINT64_MAX) {
  auto cache = Cache::Open({.dir = dir, .quota_bytes = quota}, files, nullptr);
  if (!cache.ok()) return;
  const auto work = (*cache)->NewWorkFolder();
  if (!work.ok()) return;
  const std::string key = WriteArtifact(*work + "/out", model).hex;
  (*cache)->Publish(*work + "/out", key).status().IgnoreError();
  files.RemoveTree(*work).IgnoreError();
}

TEST_F(CacheTest, CrashWhilePublishingLeavesAllOrNothing) {
  CrashEverywhere([](auto&, auto&) {},
                  [](auto& files, auto& dir) { Publish(files, dir, "m"); }, {KeyOf("m")}, {});
}

TEST_F(CacheTest, CrashWhileEvictingLeavesAllOrNothing) {
  CrashEverywhere(
      [](auto& files, auto& dir) {
        Publish(files, dir, "old");
        Publish(files, dir, "older");
      },
      [](auto& files, auto& dir) { Publish(files, dir, "new", 2000); },
      {KeyOf("old"), KeyOf("older"), KeyOf("new")}, {});
}

TEST_F(CacheTest, CrashDoesNotHurtTheOthers) {
  CrashEverywhere([](auto& files, auto& dir) { Publish(files, dir, "a"); },
                  [](auto& files, auto& dir) { Publish(files, dir, "b"); },
                  {KeyOf("a"), KeyOf("b")}, {KeyOf("a")});
}

TEST_F(CacheTest, AnyFailedStepIsAnErrorAndLeavesNothingHalf) {
  int steps = 0;
  for (int step = 0; step <= steps; ++step) {
    TempFolder folder;
    const std::string dir = folder / "d";
    FaultFileSystem files(dir);
    auto cache = Cache::Open({.dir = dir}, files, nullptr).value();
    files.FailAt(step);
    const auto work = cache->NewWorkFolder();
    if (work.ok()) {
      const std::string key = WriteArtifact(*work + "/out", "m").hex;
      const auto made = cache->Publish(*work + "/out", key);
      steps = std::max(steps, files.operations());
      if (made.ok()) {
        EXPECT_TRUE(cache->Find(key).ok());
      }
      cache.reset();
    }
    steps = std::max(steps, 1);
    files.FailAt(-1);
    cache = nullptr;
    auto again = Cache::Open({.dir = dir}, files, nullptr);
    ASSERT_TRUE(again.ok());
    const auto found = (*again)->Find(KeyOf("m"));
    EXPECT_TRUE(found.ok() || absl::IsNotFound(found.status())) << found.status();
  }
  EXPECT_GT(steps, 5);
}

}  // namespace
}  // namespace belfry::artifacts
