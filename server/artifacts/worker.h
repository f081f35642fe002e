// Runs the compiler (`python -m belfry_compiler`) as a supervised child. The
// contract of its arguments, output and exit codes: compiler/README.md.
#ifndef BELFRY_SERVER_ARTIFACTS_WORKER_H_
#define BELFRY_SERVER_ARTIFACTS_WORKER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/artifacts/key.h"
#include "server/artifacts/store.h"
#include "server/base/files.h"

namespace belfry::artifacts {

struct CompilerIdentity {  // what `describe` says
  std::string compiler, torch, arch, isa;
};

struct WorkerJob {
  std::string model_path, target, isa;
  std::string options_json;
  const ArtifactKey* key = nullptr;  // null: the compiler makes its own
  std::string work_folder;           // exists, empty; removed by the caller
  std::string log_path;              // empty: no log file
};

struct WorkerResult {
  std::string key;
  std::string folder;  // inside work_folder
};

// Stateless but for its options; thread-safe.
class Worker {
 public:
  Worker(const StoreOptions& options, FileSystem& files) : options_(options), files_(files) {}

  // FAILED_PRECONDITION when there is no compiler or it does not answer.
  absl::StatusOr<CompilerIdentity> Describe(const std::function<bool()>& cancelled) const;

  // Blocks until the compiler and all that it started are gone. Errors as of
  // ArtifactStore::Get; CANCELLED when 'cancelled' said so.
  absl::StatusOr<WorkerResult> Compile(const WorkerJob& job,
                                       const std::function<void(const CompileProgress&)>& progress,
                                       const std::function<bool()>& cancelled) const;

 private:
  absl::Status CheckConfigured() const;

  const StoreOptions options_;
  FileSystem& files_;
};

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_WORKER_H_
