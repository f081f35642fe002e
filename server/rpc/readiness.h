// Whether the server, or one model, can be asked now. The one opinion on that:
// ServerReady, ModelReady and grpc.health.v1 all ask here.
#ifndef BELFRY_SERVER_RPC_READINESS_H_
#define BELFRY_SERVER_RPC_READINESS_H_

#include <atomic>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/cards/pool.h"
#include "server/serving/catalog.h"
#include "server/serving/manager.h"

namespace belfry::rpc {

// Thread-safe. Owns nothing; what it is given must outlive it.
class Readiness {
 public:
  Readiness(const serving::Catalog* catalog, const serving::Manager* manager,
            const cards::CardPool* pool)
      : catalog_(catalog), manager_(manager), pool_(pool) {}

  // Every required model is READY, a card can run it and the server does not
  // drain.
  bool ServerReady() const;

  // The version is READY, a card that holds it is READY and the server does not
  // drain. A model or version that does not exist is not ready; only a name that
  // cannot be one is an error.
  absl::StatusOr<bool> ModelReady(std::string_view model, std::string_view version) const;

  // From now on nothing is ready. There is no way back.
  void MarkDraining() { draining_.store(true, std::memory_order_relaxed); }
  bool draining() const { return draining_.load(std::memory_order_relaxed); }

 private:
  bool HasReadyCard(const serving::VersionStatus& status) const;

  const serving::Catalog* const catalog_;
  const serving::Manager* const manager_;
  const cards::CardPool* const pool_;
  std::atomic<bool> draining_{false};
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_READINESS_H_
