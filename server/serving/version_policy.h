// What is to be done next with the versions of one model. A pure function of
// what is there, what is wished and what runs: no clock, no lock, no state.
//
// It preserves availability: a new version becomes READY before the one that it
// replaces is drained, and one that fails replaces nothing.
#ifndef BELFRY_SERVER_SERVING_VERSION_POLICY_H_
#define BELFRY_SERVER_SERVING_VERSION_POLICY_H_

#include <cstdint>
#include <optional>
#include <span>

#include "server/serving/version_state.h"

namespace belfry::serving {

// What those who run the server want of a version.
enum class Wish {
  kServe,     // to be READY
  kReplaced,  // to go once a wished version with a higher number is READY
  kGone,      // to go now
};

struct VersionView {
  int64_t number = 0;
  VersionState state = VersionState::kUploaded;
  Wish wish = Wish::kServe;
  bool busy = false;       // something is being done with it
  bool cancelled = false;  // … which has been told to stop
};

enum class ActionKind {
  kLoad,      // UPLOADED -> … -> READY
  kCancel,    // tell the load under way to stop
  kDrop,      // -> UNLOADED: it serves nobody and holds nothing
  kWithdraw,  // READY -> DRAINING: from now on it gets no new request
  kDrain,     // DRAINING -> UNLOADED
};

struct Action {
  ActionKind kind;
  int64_t number;
  bool operator==(const Action&) const = default;
};

// The next action, nullopt when there is nothing to do. To be asked again once
// it has been started, and whenever a state or a wish has changed.
// Properties: the only READY version of a model is withdrawn only if its wish is
// kGone; nothing that takes time (kLoad, kDrain) is started on a version that is
// busy; once every action ends, the answer becomes nullopt after a bounded
// number of steps.
std::optional<Action> NextAction(std::span<const VersionView> versions);

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_VERSION_POLICY_H_
