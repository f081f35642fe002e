// The model repository extension: index, load, unload.
#ifndef BELFRY_SERVER_RPC_REPOSITORY_H_
#define BELFRY_SERVER_RPC_REPOSITORY_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/open_inference.pb.h"
#include "server/serving/catalog.h"
#include "server/serving/manager.h"

namespace belfry::rpc {

// Whether whoever asked has gone. Asked a few times a second.
using Cancelled = std::function<bool()>;

// Blocks until the version is READY (OK), has ended otherwise
// (FAILED_PRECONDITION with its reason) or the asker has gone (CANCELLED). The
// load itself goes on.
absl::Status AwaitReady(serving::Manager* manager, const std::string& model,
                        const std::string& version, const Cancelled& cancelled);

// Blocks until the version serves no more: UNLOADED or FAILED.
absl::Status AwaitUnloaded(serving::Manager* manager, const std::string& model,
                           const std::string& version, const Cancelled& cancelled);

// Thread-safe. Owns nothing.
class Repository {
 public:
  Repository(const serving::Catalog* catalog, serving::Manager* manager)
      : catalog_(catalog), manager_(manager) {}

  absl::Status Index(const inference::RepositoryIndexRequest& request,
                     inference::RepositoryIndexResponse* response) const;

  // Block. Load: until every version that the policy serves is READY; a model
  // that is READY already is left alone. Unload: until all versions have
  // drained; one that is unloaded already succeeds.
  absl::Status Load(const inference::RepositoryModelLoadRequest& request,
                    const Cancelled& cancelled);
  absl::Status Unload(const inference::RepositoryModelUnloadRequest& request,
                      const Cancelled& cancelled);

 private:
  const serving::Catalog* const catalog_;
  serving::Manager* const manager_;
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_REPOSITORY_H_
