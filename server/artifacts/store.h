// The artifact cache and what fills it: "give me the artifact of this model for
// this target", compiled at most once however many ask.
#ifndef BELFRY_SERVER_ARTIFACTS_STORE_H_
#define BELFRY_SERVER_ARTIFACTS_STORE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "device/manifest/manifest.h"

namespace belfry {
class FileSystem;
namespace telemetry {
class Metrics;
}
}  // namespace belfry

namespace belfry::artifacts {

struct StoreOptions {
  std::string dir;               // DIR/artifacts
  uint64_t quota_bytes = 20ull << 30;
  bool artifacts_only = false;   // never compile
  std::string python;            // interpreter that has torch; empty: no compiler
  std::string compiler_dir;      // folder that holds the package belfry_compiler
  int parallel_compiles = 1;
  absl::Duration compile_timeout = absl::Minutes(30);
  uint64_t compile_memory_bytes = 12ull << 30;  // of a compile's processes together
  // Both must outlive the store. Null: nothing is recorded; the real files.
  telemetry::Metrics* metrics = nullptr;
  FileSystem* files = nullptr;
};

struct CompileRequest {
  std::string model_path;    // the .pt2
  std::string target;        // "cpu"
  std::string options_json;  // canonical compile options (serving/model_config.h)
  // From cards::DescribeDriver: driver, arch, isa, torch.
  std::map<std::string, std::string> driver;
  std::string label;         // "card-fraud/1", for logs and progress
};

// What a person sees while it compiles (`belfry show`).
struct CompileProgress {
  std::string stage;       // "load", "inductor", "numerics", …
  double seconds = 0;      // since the compile began
  std::string log_tail;    // last 4 KiB of the compiler's output
};

// Pins an artifact: while one of these lives it is not evicted.
class ArtifactRef {
 public:
  virtual ~ArtifactRef() = default;
  virtual const std::string& dir() const = 0;
  virtual const Manifest& manifest() const = 0;
  virtual bool was_cached() const = 0;  // this Get did not compile
};

// Thread-safe. Destroying it kills a running compile with all its children.
class ArtifactStore {
 public:
  // Removes what a crash left behind (temporary folders), never a whole
  // artifact. UNAVAILABLE when another process uses the folder.
  static absl::StatusOr<std::unique_ptr<ArtifactStore>> Open(StoreOptions options);
  virtual ~ArtifactStore() = default;

  // Blocks until the artifact is there. 'cancelled' is asked now and then;
  // when the last asker cancels, the compile is killed. Errors carry the
  // compiler's own words (FAILED_PRECONDITION: the model cannot be compiled,
  // misses its tolerance, or the compiler's torch is not the driver's;
  // INVALID_ARGUMENT: the options do not fit the model; RESOURCE_EXHAUSTED:
  // memory, time or disk; NOT_FOUND without a compiler, naming the fields of the
  // key; ABORTED: the model changed meanwhile; CANCELLED). A failure is told to
  // all who asked together and then forgotten: the next Get tries again.
  // 'progress' and 'cancelled' are called on the calling thread.
  virtual absl::StatusOr<std::shared_ptr<ArtifactRef>> Get(
      const CompileRequest& request, std::function<void(const CompileProgress&)> progress,
      std::function<bool()> cancelled) = 0;

  // For `belfry show --explain-cache-miss`: the fields in which the nearest
  // cached artifact of the same model differs, one line each.
  virtual absl::StatusOr<std::string> ExplainMiss(const CompileRequest& request) = 0;

  struct Usage {
    uint64_t bytes = 0;
    uint64_t artifacts = 0;
    uint64_t hits = 0, misses = 0, evictions = 0, evicted_bytes = 0, damaged = 0;
  };
  virtual Usage GetUsage() const = 0;
};

// The same compile without a daemon: leaves OUT_DIR/<key>/, which serves where it
// is copied to DATA/artifacts/ of a host with the same driver. Returns the key.
// An artifact that is there already is kept. Of the options only those of the
// compiler count. With an empty request.driver the compiler says what it makes.
absl::StatusOr<std::string> CompileToFolder(
    const CompileRequest& request, const StoreOptions& options, const std::string& out_dir,
    const std::function<void(const CompileProgress&)>& progress,
    const std::function<bool()>& cancelled = nullptr);

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_STORE_H_
