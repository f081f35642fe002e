// The control methods of the inference service, answered from the catalog, the
// manager and the metrics. One file for each subject: metadata.cc, config.cc,
// statistics.cc; this one forwards.
#ifndef BELFRY_SERVER_RPC_CONTROL_HANDLER_IMPL_H_
#define BELFRY_SERVER_RPC_CONTROL_HANDLER_IMPL_H_

#include <string>

#include "server/cards/pool.h"
#include "server/rpc/control_handler.h"
#include "server/rpc/readiness.h"
#include "server/rpc/repository.h"
#include "server/serving/catalog.h"
#include "server/serving/manager.h"
#include "server/telemetry/metrics.h"

namespace belfry::rpc {

// What the handlers of both listeners work on. Owns nothing.
struct Backend {
  const serving::Catalog* catalog = nullptr;
  serving::Manager* manager = nullptr;
  const cards::CardPool* pool = nullptr;
  telemetry::Metrics* metrics = nullptr;
  Readiness* readiness = nullptr;
  std::string server_version;
};

// Thread-safe, and never blocks: the inference listener calls it from the
// threads of its completion queues. Loading and unloading are refused with the
// address where they are offered; the admin listener has its own service for
// them.
class ControlHandlerImpl : public ControlHandler {
 public:
  ControlHandlerImpl(const Backend* backend, std::string admin_address)
      : backend_(backend),
        repository_(backend->catalog, backend->manager),
        admin_address_(std::move(admin_address)) {}

  grpc::Status ServerLive(const inference::ServerLiveRequest& request,
                          inference::ServerLiveResponse* response) override;
  grpc::Status ServerReady(const inference::ServerReadyRequest& request,
                           inference::ServerReadyResponse* response) override;
  grpc::Status ModelReady(const inference::ModelReadyRequest& request,
                          inference::ModelReadyResponse* response) override;
  grpc::Status ServerMetadata(const inference::ServerMetadataRequest& request,
                              inference::ServerMetadataResponse* response) override;
  grpc::Status ModelMetadata(const inference::ModelMetadataRequest& request,
                             inference::ModelMetadataResponse* response) override;
  grpc::Status ModelConfig(const inference::ModelConfigRequest& request,
                           inference::ModelConfigResponse* response) override;
  grpc::Status ModelStatistics(const inference::ModelStatisticsRequest& request,
                               inference::ModelStatisticsResponse* response) override;
  grpc::Status RepositoryIndex(const inference::RepositoryIndexRequest& request,
                               inference::RepositoryIndexResponse* response) override;
  grpc::Status RepositoryModelLoad(const inference::RepositoryModelLoadRequest& request,
                                   inference::RepositoryModelLoadResponse* response) override;
  grpc::Status RepositoryModelUnload(const inference::RepositoryModelUnloadRequest& request,
                                     inference::RepositoryModelUnloadResponse* response) override;

 private:
  grpc::Status RefuseChange(std::string_view method) const;

  const Backend* const backend_;
  Repository repository_;
  const std::string admin_address_;
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_CONTROL_HANDLER_IMPL_H_
