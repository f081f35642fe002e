#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cards/pool.h"

namespace belfry::cards {
namespace {

using ::testing::HasSubstr;

TEST(ParseCardsTest, Groups) {
  const auto groups = ParseCards("cpu:2, spyre-sim:1");
  ASSERT_TRUE(groups.ok()) << groups.status();
  ASSERT_EQ(groups->size(), 2u);
  EXPECT_EQ((*groups)[0].driver, "cpu");
  EXPECT_EQ((*groups)[0].count, 2);
  EXPECT_EQ((*groups)[1].driver, "spyre-sim");
  EXPECT_EQ((*groups)[1].count, 1);
}

TEST(ParseCardsTest, NoCountIsOne) {
  const auto groups = ParseCards("cpu");
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ(groups->at(0).count, 1);
}

TEST(ParseCardsTest, NamesTheWrongElement) {
  struct Case {
    const char* text;
    const char* named;
  };
  for (const Case& c : std::initializer_list<Case>{{"", "''"},
                                                   {"cpu:2,", "''"},
                                                   {"cpu:2,:1", "':1'"},
                                                   {"cpu:0", "'cpu:0'"},
                                                   {"cpu:", "'cpu:'"},
                                                   {"cpu:-1", "'cpu:-1'"},
                                                   {"cpu:+1", "'cpu:+1'"},
                                                   {"cpu:1x", "'cpu:1x'"},
                                                   {"cpu:1:2", "'cpu:1:2'"},
                                                   {"cpu:99999999999", "'cpu:99999999999'"},
                                                   {"cpu:65", "'cpu:65'"},
                                                   {"a:40,b:40", "'b:40'"},
                                                   {"../x:1", "'../x:1'"},
                                                   {"cpu:1,cpu:1", "'cpu:1'"}}) {
    const auto groups = ParseCards(c.text);
    EXPECT_EQ(groups.status().code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_THAT(groups.status().message(), HasSubstr(c.named)) << c.text;
  }
}

}  // namespace
}  // namespace belfry::cards
