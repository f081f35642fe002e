#include "server/artifacts/eviction.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::artifacts {
namespace {

using ::testing::ElementsAreArray;

TEST(EvictionTest, Table) {
  struct Case {
    const char* what;
    std::vector<EvictionCandidate> artifacts;  // key, bytes, last use, pinned
    uint64_t quota;
    std::vector<std::string> leave;
  };
  const Case kCases[] = {
      {"nothing there", {}, 0, {}},
      {"fits to the byte", {{"a", 5, 1}, {"b", 5, 2}}, 10, {}},
      {"least recent goes", {{"b", 5, 2}, {"a", 5, 1}}, 9, {"a"}},
      {"as many as needed", {{"a", 4, 1}, {"b", 4, 2}, {"c", 4, 3}}, 5, {"a", "b"}},
      {"never a pinned one", {{"a", 4, 1, true}, {"b", 4, 2}, {"c", 4, 3}}, 8, {"b"}},
      {"all pinned", {{"a", 4, 1, true}, {"b", 4, 2, true}}, 4, {}},
      {"too large: goes when unused", {{"big", 100, 9}, {"a", 4, 1}}, 10, {"big"}},
      {"too large and in use: pushes nobody", {{"big", 100, 9, true}, {"a", 4, 1}}, 10, {}},
      {"quota nil", {{"a", 1, 1}, {"b", 1, 2, true}}, 0, {"a"}},
      {"equal times by key", {{"b", 5, 1}, {"a", 5, 1}}, 5, {"a"}},
  };
  for (const Case& c : kCases) {
    EXPECT_THAT(ChooseEvictions(c.artifacts, c.quota), ElementsAreArray(c.leave)) << c.what;
  }
}

}  // namespace
}  // namespace belfry::artifacts
