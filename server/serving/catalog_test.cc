#include "server/serving/catalog.h"

#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::serving {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

VersionEntry Entry(std::string model, std::string version, VersionState state,
                   std::string reason = "") {
  VersionEntry entry{.model = std::move(model), .version = std::move(version), .state = state,
                     .reason = std::move(reason)};
  if (state == VersionState::kReady) {
    scheduling::QueueOptions options;
    options.model = entry.model;
    options.version = entry.version;
    options.metrics = std::make_shared<telemetry::ModelMetrics>();
    entry.queue = std::make_shared<scheduling::ModelQueue>(std::move(options));
  }
  return entry;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(CatalogTest, AnEmptyCatalogSaysSo) {
  Catalog catalog;
  const auto found = catalog.Resolve("m", "");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(found.status()), HasSubstr("none at all"));
}

TEST(CatalogTest, NoVersionMeansTheNewestReadyOne) {
  Catalog catalog;
  catalog.Put(Entry("m", "9", VersionState::kReady));
  catalog.Put(Entry("m", "10", VersionState::kReady));
  catalog.Put(Entry("m", "11", VersionState::kCompiling));
  EXPECT_EQ((*catalog.Resolve("m", ""))->version, "10");
  catalog.Put(Entry("m", "10", VersionState::kDraining));
  EXPECT_EQ((*catalog.Resolve("m", ""))->version, "9");
  catalog.Put(Entry("m", "11", VersionState::kReady));
  EXPECT_EQ((*catalog.Resolve("m", ""))->version, "11");
}

TEST(CatalogTest, AVersionThatIsNotReadyTellsStateAndReason) {
  Catalog catalog;
  catalog.Put(Entry("m", "3", VersionState::kFailed, "no kernel for aten::foo\nsecond line"));
  for (const char* version : {"3", ""}) {
    const auto found = catalog.Resolve("m", version);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(found.status()),
                AllOf(HasSubstr("'m'"), HasSubstr("version 3"), HasSubstr("FAILED"),
                      HasSubstr("no kernel for aten::foo"), Not(HasSubstr("second line"))));
  }
  // Whatever its state, it is found.
  EXPECT_EQ((*catalog.Find("m", "3"))->state, VersionState::kFailed);
  EXPECT_EQ((*catalog.Find("m", ""))->version, "3");
}

TEST(CatalogTest, NotFoundNamesWhatThereIs) {
  Catalog catalog;
  catalog.Put(Entry("card-fraud", "2", VersionState::kReady));
  catalog.Put(Entry("card-fraud", "5", VersionState::kUnloaded));
  catalog.Put(Entry("minilm", "1", VersionState::kReady));
  auto status = catalog.Resolve("nope", "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("'nope'"), HasSubstr("card-fraud, minilm")));
  status = catalog.Resolve("card-fraud", "3").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(status), HasSubstr("it has 2, 5"));
}

TEST(CatalogTest, TheListInAnErrorIsBounded) {
  Catalog catalog;
  for (int i = 0; i < 500; ++i) {
    catalog.Put(Entry("model-" + std::to_string(i), "1", VersionState::kReady));
  }
  const auto status = catalog.Resolve("nope", "").status();
  EXPECT_THAT(Message(status), HasSubstr("and 480 more"));
  EXPECT_LT(status.message().size(), 1000u);
}

TEST(CatalogTest, AliasesAreUnderstoodButThereAreNone) {
  Catalog catalog;
  catalog.Put(Entry("m", "1", VersionState::kReady));
  const auto status = catalog.Resolve("m", "@champion").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("'@champion'"), HasSubstr("none")));
}

TEST(CatalogTest, MalformedNamesAreInvalidAndNeverEchoedRaw) {
  Catalog catalog;
  catalog.Put(Entry("m", "1", VersionState::kReady));
  const std::string nasty = std::string("a\n\0b", 4) + std::string(10'000, 'x');
  for (const std::string& name : {std::string(""), std::string("-m"), std::string("m/1"), nasty}) {
    const auto status = catalog.Resolve(name, "").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
    EXPECT_LT(status.message().size(), 1000u);
  }
  for (const std::string& version : {std::string("0"), std::string("01"), std::string("-1"),
                                     std::string("+1"), std::string("1 "), std::string("1.0"),
                                     std::string("99999999999999999999"), std::string("@"),
                                     std::string("@-x"), std::string("latest"), nasty}) {
    const auto status = catalog.Resolve("m", version).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << version << ": " << status;
    EXPECT_LT(status.message().size(), 1000u);
  }
}

TEST(CatalogTest, ListsByNameThenNumber) {
  Catalog catalog;
  catalog.Put(Entry("b", "10", VersionState::kReady));
  catalog.Put(Entry("b", "9", VersionState::kReady));
  catalog.Put(Entry("a", "1", VersionState::kReady));
  std::vector<std::string> names;
  for (const auto& entry : catalog.List()) names.push_back(entry->model + "/" + entry->version);
  EXPECT_THAT(names, testing::ElementsAre("a/1", "b/9", "b/10"));
}

TEST(CatalogTest, RemovingTheLastVersionRemovesTheModel) {
  Catalog catalog;
  catalog.Put(Entry("m", "1", VersionState::kReady));
  catalog.Put(Entry("m", "2", VersionState::kReady));
  catalog.Remove("m", "2");
  EXPECT_EQ((*catalog.Resolve("m", ""))->version, "1");
  catalog.Remove("m", "1");
  EXPECT_EQ(catalog.Find("m", "").status().code(), absl::StatusCode::kNotFound);
  catalog.Remove("m", "1");  // nothing to do
  EXPECT_TRUE(catalog.List().empty());
}

TEST(CatalogTest, ADrainingServerResolvesNothing) {
  Catalog catalog;
  catalog.Put(Entry("m", "1", VersionState::kReady));
  catalog.Drain("the server is draining");
  const auto status = catalog.Resolve("m", "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "the server is draining");
  EXPECT_FALSE(IsRetired(status));
  EXPECT_TRUE(catalog.Find("m", "1").ok());
}

TEST(CatalogTest, TwoCatalogsInOneThreadAreNotMixedUp) {
  Catalog one;
  Catalog two;
  one.Put(Entry("m", "1", VersionState::kReady));
  two.Put(Entry("m", "2", VersionState::kReady));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*one.Resolve("m", ""))->version, "1");
    EXPECT_EQ((*two.Resolve("m", ""))->version, "2");
  }
}

TEST(RetiredStatusTest, IsToldFromAnyOtherRefusal) {
  const absl::Status retired = RetiredStatus("gone");
  EXPECT_EQ(retired.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(retired.message(), "gone");
  EXPECT_TRUE(IsRetired(retired));
  EXPECT_TRUE(IsRetired(absl::Status(retired)));
  EXPECT_FALSE(IsRetired(absl::UnavailableError("gone")));
  EXPECT_FALSE(IsRetired(absl::OkStatus()));
}

TEST(WithReadyTest, LooksAgainWhenTheVersionWasRetiredInBetween) {
  Catalog catalog;
  catalog.Put(Entry("m", "1", VersionState::kReady));
  std::vector<std::string> tried;
  const auto status = catalog.WithReady("m", "", [&](const auto& entry) {
    tried.push_back(entry->version);
    if (entry->version == "2") return absl::OkStatus();
    // What a swap does, between our look-up and our submission.
    catalog.Put(Entry("m", "2", VersionState::kReady));
    catalog.Put(Entry("m", "1", VersionState::kDraining));
    return RetiredStatus("version 1 has gone");
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(tried, testing::ElementsAre("1", "2"));
}

TEST(WithReadyTest, OtherRefusalsAreNotRepeated) {
  Catalog catalog;
  catalog.Put(Entry("m", "1", VersionState::kReady));
  int calls = 0;
  const auto status = catalog.WithReady("m", "", [&](const auto&) {
    ++calls;
    return absl::ResourceExhaustedError("full");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(calls, 1);
}

TEST(WithReadyTest, ANumberedVersionThatHasGoneIsNotReplacedByAnother) {
  Catalog catalog;
  catalog.Put(Entry("m", "1", VersionState::kReady));
  catalog.Put(Entry("m", "2", VersionState::kReady));
  const auto status = catalog.WithReady("m", "1", [&](const auto& entry) {
    EXPECT_EQ(entry->version, "1");
    catalog.Put(Entry("m", "1", VersionState::kDraining));
    return RetiredStatus("version 1 has gone");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("DRAINING"));
}

TEST(WithReadyTest, EndsEvenIfEverythingIsAlwaysRetired) {
  Catalog catalog;
  catalog.Put(Entry("m", "1", VersionState::kReady));
  int calls = 0;
  const auto status = catalog.WithReady("m", "", [&](const auto&) {
    ++calls;
    return RetiredStatus("gone");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(calls, 100);
}

// Swaps under readers: nobody ever sees a model without a READY version, and
// nobody sees time go backwards. Meant for the thread sanitizer, too.
TEST(CatalogThreadsTest, ReadersNeverSeeAGapOrAnOlderVersion) {
  constexpr int kReaders = 4;
  constexpr int64_t kSwaps = 2000;
  Catalog catalog;
  catalog.Put(Entry("m", "1", VersionState::kReady));
  std::atomic<bool> stop{false};
  std::atomic<int> gaps{0};
  std::atomic<int> backwards{0};
  std::latch start(kReaders + 1);
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&] {
      start.arrive_and_wait();
      int64_t newest = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        const auto found = catalog.Resolve("m", "");
        if (!found.ok() || (*found)->queue == nullptr) {
          gaps.fetch_add(1);
          continue;
        }
        const int64_t version = std::stoll((*found)->version);
        if (version < newest) backwards.fetch_add(1);
        newest = version;
      }
    });
  }
  start.arrive_and_wait();
  for (int64_t i = 2; i < kSwaps; ++i) {
    catalog.Put(Entry("m", std::to_string(i), VersionState::kReady));
    catalog.Put(Entry("m", std::to_string(i - 1), VersionState::kDraining));
    catalog.Remove("m", std::to_string(i - 1));
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(gaps, 0);
  EXPECT_EQ(backwards, 0);
}

TEST(CatalogThreadsTest, WhatIsPutBeforeAnEventIsSeenAfterIt) {
  Catalog catalog;
  for (int i = 1; i <= 200; ++i) {
    catalog.Put(Entry("m", std::to_string(i), VersionState::kReady));
    std::thread([&] { EXPECT_EQ((*catalog.Resolve("m", ""))->version, std::to_string(i)); }).join();
    EXPECT_EQ((*catalog.Resolve("m", ""))->version, std::to_string(i));
  }
}

TEST(CatalogThreadsTest, SeveralWritersLoseNothing) {
  Catalog catalog;
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 1; i <= 100; ++i) {
        catalog.Put(Entry("m" + std::to_string(w), std::to_string(i), VersionState::kReady));
      }
    });
  }
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(catalog.List().size(), 400u);
}

}  // namespace
}  // namespace belfry::serving
