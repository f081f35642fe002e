// The states of a version and the steps between them. Nothing else changes a
// state.
//
//   UPLOADED -> COMPILING -> COMPILED -> LOADING -> WARMING -> READY -> DRAINING
//     -> UNLOADED;  any but UNLOADED -> FAILED with a reason;
//   UNLOADED, FAILED -> UPLOADED when it is asked for again;
//   FAILED and every state before READY -> UNLOADED when it is unloaded then:
//     it has accepted no request, so there is nothing to drain.
// A built-in model or an artifact from the cache passes COMPILING at once.
#ifndef BELFRY_SERVER_SERVING_VERSION_STATE_H_
#define BELFRY_SERVER_SERVING_VERSION_STATE_H_

#include <string_view>

namespace belfry::serving {

enum class VersionState {
  kUploaded,
  kCompiling,
  kCompiled,
  kLoading,
  kWarming,
  kReady,
  kDraining,
  kUnloaded,
  kFailed,
};

// "UPLOADED", …
std::string_view VersionStateName(VersionState state);

// Whether the step stands in the table above.
bool IsLegalStep(VersionState from, VersionState to);

// On the way from UPLOADED to READY, not there yet.
inline bool IsOnItsWay(VersionState state) { return state < VersionState::kReady; }

// READY, UNLOADED or FAILED: nothing more happens unless someone asks.
inline bool IsSettled(VersionState state) {
  return state == VersionState::kReady || state == VersionState::kUnloaded ||
         state == VersionState::kFailed;
}

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_VERSION_STATE_H_
