// The states of a version and the steps between them. Nothing else changes a
// state.
//
//   UPLOADED -> COMPILING -> COMPILED -> LOADING -> WARMING -> READY -> DRAINING
//     -> UNLOADED;  any but UNLOADED -> FAILED with a reason;
//   UNLOADED, FAILED -> UPLOADED when it is asked for again.
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

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_VERSION_STATE_H_
