// Everything that `belfry show` tells of a version. Plain data.
#ifndef BELFRY_SERVER_SERVING_VERSION_STATUS_H_
#define BELFRY_SERVER_SERVING_VERSION_STATUS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/manifest/manifest.h"
#include "server/artifacts/store.h"
#include "server/serving/version_state.h"

namespace belfry::serving {

// What was compiled for one target.
struct ArtifactStatus {
  std::string target;
  std::string key;
  bool cache_hit = false;
  double compile_seconds = 0;  // of the compile that made it, whenever that was
  double max_abs_error = 0;    // against eager
  uint64_t bytes = 0;          // on disk
  std::string report_json;     // compile report
  std::string miss;            // no cache hit: what the nearest artifact differs in
};

struct VersionStatus {
  std::string model, version;
  VersionState state = VersionState::kUploaded;
  // FAILED: why. READY: what is less than it could be (a card that did not load
  // it). UNLOADED: why it never became READY, if it did not.
  std::string reason;
  std::string path;         // of the .pt2; empty for a built-in
  std::string sha256;       // of the .pt2, once it has been read
  std::string config_yaml;  // model.yaml as it was read

  // Of the first target; all of them stand in 'artifacts'.
  std::string key;
  bool cache_hit = false;
  double compile_seconds = 0;  // 0 when it came from the cache
  std::string report_json;
  std::vector<ArtifactStatus> artifacts;

  double load_seconds = 0;  // UPLOADED -> READY without the compile
  double ready_unix_seconds = 0;  // when it became READY; 0: not yet
  // While COMPILING the compiler's; while LOADING and WARMING the stage is ours
  // ("load cpu:1", "warm cpu:0 3/12").
  artifacts::CompileProgress progress;
  std::string progress_target;  // being compiled
  std::shared_ptr<const Signature> signature;
  std::vector<std::string> cards;  // resident on
  int crashes = 0;                 // cards that it seems to have lost, of late
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_VERSION_STATUS_H_
