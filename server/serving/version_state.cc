#include "server/serving/version_state.h"

namespace belfry::serving {

std::string_view VersionStateName(VersionState state) {
  switch (state) {
    case VersionState::kUploaded:
      return "UPLOADED";
    case VersionState::kCompiling:
      return "COMPILING";
    case VersionState::kCompiled:
      return "COMPILED";
    case VersionState::kLoading:
      return "LOADING";
    case VersionState::kWarming:
      return "WARMING";
    case VersionState::kReady:
      return "READY";
    case VersionState::kDraining:
      return "DRAINING";
    case VersionState::kUnloaded:
      return "UNLOADED";
    case VersionState::kFailed:
      return "FAILED";
  }
  return "UNKNOWN";
}

bool IsLegalStep(VersionState from, VersionState to) {
  using enum VersionState;
  switch (to) {
    case kUploaded:
      return from == kUnloaded || from == kFailed;
    case kCompiling:
      return from == kUploaded;
    case kCompiled:
      return from == kCompiling;
    case kLoading:
      return from == kCompiled;
    case kWarming:
      return from == kLoading;
    case kReady:
      return from == kWarming;
    case kDraining:
      return from == kReady;
    case kUnloaded:
      return from == kDraining || from == kFailed || IsOnItsWay(from);
    case kFailed:
      return from != kUnloaded && from != kFailed;
  }
  return false;
}

}  // namespace belfry::serving
