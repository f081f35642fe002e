#include "server/cards/cores.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::cards {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CoresTest, GivesEachCardCoresOfItsOwn) {
  const std::vector<int> allowed = {2, 3, 8, 9, 10};
  const auto cores = AssignCores(2, 2, allowed);
  ASSERT_TRUE(cores.ok()) << cores.status();
  EXPECT_THAT(*cores, ElementsAre(ElementsAre(2, 3), ElementsAre(8, 9)));
}

TEST(CoresTest, NoCardsNeedNoCores) {
  const auto cores = AssignCores(0, 4, {});
  ASSERT_TRUE(cores.ok()) << cores.status();
  EXPECT_THAT(*cores, IsEmpty());
}

TEST(CoresTest, TooFewCoresIsAnErrorWithTheNumbers) {
  const std::vector<int> allowed = {0, 1, 2};
  const auto cores = AssignCores(2, 2, allowed);
  EXPECT_EQ(cores.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(cores.status().message(), HasSubstr("needs 4 cores, this process may use 3"));
}

TEST(CoresTest, ProductsDoNotOverflow) {
  const std::vector<int> allowed = {0};
  EXPECT_FALSE(AssignCores(1 << 20, 1 << 20, allowed).ok());
  EXPECT_FALSE(AssignCores(1, 0, allowed).ok());
}

TEST(CoresTest, ThisProcessMayUseSomeCore) {
  const auto cores = AllowedCores();
  ASSERT_TRUE(cores.ok()) << cores.status();
  EXPECT_FALSE(cores->empty());
}

}  // namespace
}  // namespace belfry::cards
