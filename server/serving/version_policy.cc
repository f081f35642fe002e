#include "server/serving/version_policy.h"

#include <algorithm>

namespace belfry::serving {
namespace {

bool IsReplaced(const VersionView& version, std::span<const VersionView> all) {
  return std::any_of(all.begin(), all.end(), [&](const VersionView& other) {
    return other.number > version.number && other.wish == Wish::kServe &&
           other.state == VersionState::kReady;
  });
}

std::optional<ActionKind> Leave(const VersionView& version) {
  // At once, even if a task is at its end: whoever asked for it relies on it.
  if (version.state == VersionState::kReady) return ActionKind::kWithdraw;
  if (version.busy) {
    const bool stop = IsOnItsWay(version.state) && !version.cancelled;
    return stop ? std::optional(ActionKind::kCancel) : std::nullopt;
  }
  if (IsOnItsWay(version.state)) return ActionKind::kDrop;
  // The reason of a failure stays to be read until someone wants it gone.
  const bool drop = version.state == VersionState::kFailed && version.wish == Wish::kGone;
  return drop ? std::optional(ActionKind::kDrop) : std::nullopt;
}

}  // namespace

std::optional<Action> NextAction(std::span<const VersionView> versions) {
  for (const VersionView& version : versions) {
    if (version.wish == Wish::kServe && version.state == VersionState::kUploaded &&
        !version.busy) {
      return Action{ActionKind::kLoad, version.number};
    }
  }
  for (const VersionView& version : versions) {
    // Whatever is wished by now: it has to leave before it can come back.
    if (version.state == VersionState::kDraining && !version.busy) {
      return Action{ActionKind::kDrain, version.number};
    }
    const bool leaves = version.wish == Wish::kGone ||
                        (version.wish == Wish::kReplaced && IsReplaced(version, versions));
    if (!leaves) continue;
    if (const auto kind = Leave(version)) return Action{*kind, version.number};
  }
  return std::nullopt;
}

}  // namespace belfry::serving
