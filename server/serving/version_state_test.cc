#include "server/serving/version_state.h"

#include <array>
#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace belfry::serving {
namespace {

using enum VersionState;

constexpr std::array kAll = {kUploaded, kCompiling, kCompiled, kLoading, kWarming,
                             kReady,    kDraining,  kUnloaded, kFailed};

// The whole table, written out: what is not here is not legal.
const std::set<std::pair<VersionState, VersionState>> kLegal = {
    {kUploaded, kCompiling}, {kCompiling, kCompiled}, {kCompiled, kLoading},
    {kLoading, kWarming},    {kWarming, kReady},      {kReady, kDraining},
    {kDraining, kUnloaded},
    // A failure, from anywhere that is not the end.
    {kUploaded, kFailed},    {kCompiling, kFailed},   {kCompiled, kFailed},
    {kLoading, kFailed},     {kWarming, kFailed},     {kReady, kFailed},
    {kDraining, kFailed},
    // Asked for again.
    {kUnloaded, kUploaded},  {kFailed, kUploaded},
    // Unloaded before it served, or after it failed.
    {kUploaded, kUnloaded},  {kCompiling, kUnloaded}, {kCompiled, kUnloaded},
    {kLoading, kUnloaded},   {kWarming, kUnloaded},   {kFailed, kUnloaded},
};

TEST(VersionStateTest, ExactlyTheStepsOfTheTableAreLegal) {
  for (VersionState from : kAll) {
    for (VersionState to : kAll) {
      EXPECT_EQ(IsLegalStep(from, to), kLegal.contains({from, to}))
          << VersionStateName(from) << " -> " << VersionStateName(to);
    }
  }
}

TEST(VersionStateTest, AReadyVersionIsNeverUnloadedWithoutDraining) {
  EXPECT_FALSE(IsLegalStep(kReady, kUnloaded));
}

TEST(VersionStateTest, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (VersionState state : kAll) names.insert(VersionStateName(state));
  EXPECT_EQ(names.size(), kAll.size());
  EXPECT_EQ(VersionStateName(kReady), "READY");
}

TEST(VersionStateTest, EveryStateIsOnItsWayOrSettledOrDraining) {
  for (VersionState state : kAll) {
    EXPECT_EQ(int{IsOnItsWay(state)} + int{IsSettled(state)} + int{state == kDraining}, 1)
        << VersionStateName(state);
  }
}

}  // namespace
}  // namespace belfry::serving
