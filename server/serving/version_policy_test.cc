#include "server/serving/version_policy.h"

#include <array>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace belfry::serving {
namespace {

using enum VersionState;
using enum ActionKind;

struct Row {
  std::string name;
  std::vector<VersionView> versions;
  std::optional<Action> expected;
};

class PolicyTable : public testing::TestWithParam<Row> {};

TEST_P(PolicyTable, Holds) {
  const auto action = NextAction(GetParam().versions);
  ASSERT_EQ(action.has_value(), GetParam().expected.has_value());
  if (action) {
    EXPECT_EQ(action->kind, GetParam().expected->kind);
    EXPECT_EQ(action->number, GetParam().expected->number);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PolicyTable,
    testing::ValuesIn(std::vector<Row>{
        {"nothing", {}, {}},
        {"first_load", {{1, kUploaded, Wish::kServe}}, Action{kLoad, 1}},
        {"loading", {{1, kCompiling, Wish::kServe, true}}, {}},
        {"waiting_for_a_thread", {{1, kUploaded, Wish::kServe, true}}, {}},
        {"serves", {{1, kReady, Wish::kServe}}, {}},
        {"failed_is_not_tried_again", {{1, kFailed, Wish::kServe}}, {}},
        {"new_beside_old",
         {{1, kReady, Wish::kReplaced}, {2, kUploaded, Wish::kServe}},
         Action{kLoad, 2}},
        {"old_serves_while_new_compiles",
         {{1, kReady, Wish::kReplaced}, {2, kCompiling, Wish::kServe, true}},
         {}},
        {"old_serves_while_new_warms",
         {{1, kReady, Wish::kReplaced}, {2, kWarming, Wish::kServe, true}},
         {}},
        {"old_stays_when_new_failed",
         {{1, kReady, Wish::kReplaced}, {2, kFailed, Wish::kServe}},
         {}},
        {"old_is_withdrawn_when_new_is_ready",
         {{1, kReady, Wish::kReplaced}, {2, kReady, Wish::kServe}},
         Action{kWithdraw, 1}},
        {"drain_goes_on",
         {{1, kDraining, Wish::kReplaced, true}, {2, kReady, Wish::kServe}},
         {}},
        {"old_stays_when_new_is_to_go",
         {{1, kReady, Wish::kReplaced}, {2, kReady, Wish::kGone}},
         Action{kWithdraw, 2}},
        {"lower_does_not_replace_higher",
         {{1, kReady, Wish::kServe}, {2, kReady, Wish::kReplaced}},
         {}},
        {"old_on_its_way_finishes_first",
         {{1, kCompiling, Wish::kReplaced, true}, {2, kCompiling, Wish::kServe, true}},
         {}},
        {"old_on_its_way_is_stopped_when_new_is_ready",
         {{1, kCompiling, Wish::kReplaced, true}, {2, kReady, Wish::kServe}},
         Action{kCancel, 1}},
        {"stopped_once",
         {{1, kCompiling, Wish::kReplaced, true, true}, {2, kReady, Wish::kServe}},
         {}},
        {"failed_old_keeps_its_reason",
         {{1, kFailed, Wish::kReplaced}, {2, kReady, Wish::kServe}},
         {}},
        {"unload_ready", {{1, kReady, Wish::kGone}}, Action{kWithdraw, 1}},
        {"unload_just_ready", {{1, kReady, Wish::kGone, true}}, Action{kWithdraw, 1}},
        {"unload_draining", {{1, kDraining, Wish::kGone}}, Action{kDrain, 1}},
        {"asked_for_again_while_draining", {{1, kDraining, Wish::kServe}}, Action{kDrain, 1}},
        {"unload_draining_busy", {{1, kDraining, Wish::kGone, true}}, {}},
        {"unload_compiling", {{1, kCompiling, Wish::kGone, true}}, Action{kCancel, 1}},
        {"unload_queued", {{1, kUploaded, Wish::kGone, true}}, Action{kCancel, 1}},
        {"unload_before_begun", {{1, kUploaded, Wish::kGone}}, Action{kDrop, 1}},
        {"unload_failed", {{1, kFailed, Wish::kGone}}, Action{kDrop, 1}},
        {"unload_failed_still_cleaning", {{1, kFailed, Wish::kGone, true}}, {}},
        {"gone", {{1, kUnloaded, Wish::kGone}}, {}},
        {"loads_come_first",
         {{1, kReady, Wish::kGone}, {2, kUploaded, Wish::kServe}},
         Action{kLoad, 2}},
        {"asked_for_again_while_cleaning", {{1, kUploaded, Wish::kServe, true}}, {}},
        {"all_versions_serve_side_by_side",
         {{1, kReady, Wish::kServe}, {2, kReady, Wish::kServe}, {3, kUploaded, Wish::kServe}},
         Action{kLoad, 3}},
    }),
    [](const auto& info) { return info.param.name; });

constexpr std::array kStates = {kUploaded, kCompiling, kCompiled, kLoading, kWarming,
                                kReady,    kDraining,  kUnloaded, kFailed};

std::vector<VersionView> Random(std::mt19937& random) {
  std::vector<VersionView> views(random() % 5);
  for (size_t i = 0; i < views.size(); ++i) {
    views[i] = {static_cast<int64_t>(i + 1), kStates[random() % kStates.size()],
                static_cast<Wish>(random() % 3), random() % 2 == 0, random() % 2 == 0};
  }
  return views;
}

// What the world does with an action that is not disturbed.
void Apply(const Action& action, std::vector<VersionView>& views) {
  VersionView& view = views[action.number - 1];
  switch (action.kind) {
    case kLoad:
      view.state = kReady;
      break;
    case kCancel:
      view.cancelled = true;
      break;
    case kWithdraw:
      view.state = kDraining;
      break;
    case kDrop:
    case kDrain:
      view.state = kUnloaded;
      break;
  }
}

TEST(PolicyProperties, TheOnlyReadyVersionIsNeverWithdrawnUnlessItIsToGo) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const auto views = Random(random);
    const auto action = NextAction(views);
    if (!action || action->kind != kWithdraw) continue;
    const VersionView& view = views[action->number - 1];
    if (view.wish == Wish::kGone) continue;
    bool other = false;
    for (const auto& v : views) other |= v.number != view.number && v.state == kReady;
    EXPECT_TRUE(other);
  }
}

TEST(PolicyProperties, NothingThatTakesTimeIsStartedOnABusyVersion) {
  std::mt19937 random(2);
  for (int i = 0; i < 200'000; ++i) {
    const auto views = Random(random);
    const auto action = NextAction(views);
    if (!action || !views[action->number - 1].busy) continue;
    EXPECT_TRUE(action->kind == kCancel || action->kind == kWithdraw);
  }
}

TEST(PolicyProperties, EndsAndLeavesNothingWishedBehind) {
  std::mt19937 random(3);
  for (int i = 0; i < 50'000; ++i) {
    auto views = Random(random);
    int steps = 0;
    while (const auto action = NextAction(views)) {
      ASSERT_LE(++steps, 20);
      Apply(*action, views);
    }
    for (const auto& v : views) {
      if (v.busy) {
        continue;
      }
      EXPECT_NE(v.state, kDraining);
      if (v.wish == Wish::kServe) {
        EXPECT_NE(v.state, kUploaded);
      }
      if (v.wish == Wish::kGone) {
        EXPECT_EQ(v.state, kUnloaded);
      }
    }
  }
}

}  // namespace
}  // namespace belfry::serving
