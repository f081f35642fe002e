// The inference service's methods on the admin listener, so that the
// repository calls of stock clients work there.
#ifndef BELFRY_SERVER_RPC_ADMIN_INFERENCE_SERVICE_H_
#define BELFRY_SERVER_RPC_ADMIN_INFERENCE_SERVICE_H_

#include <string>

#include "proto/open_inference.grpc.pb.h"
#include "server/rpc/control_handler_impl.h"

namespace belfry::rpc {

// Inference itself is not offered here: the admin listener has few threads and
// no admission, and must answer when the other is swamped. Synchronous and
// thread-safe. Owns nothing of the backend.
class AdminInferenceService final : public inference::GRPCInferenceService::Service {
 public:
  AdminInferenceService(const Backend* backend, std::string inference_address)
      : control_(backend, ""),
        repository_(backend->catalog, backend->manager),
        inference_address_(std::move(inference_address)) {}

  grpc::Status ServerLive(grpc::ServerContext*, const inference::ServerLiveRequest* request,
                          inference::ServerLiveResponse* response) override {
    return control_.ServerLive(*request, response);
  }
  grpc::Status ServerReady(grpc::ServerContext*, const inference::ServerReadyRequest* request,
                           inference::ServerReadyResponse* response) override {
    return control_.ServerReady(*request, response);
  }
  grpc::Status ModelReady(grpc::ServerContext*, const inference::ModelReadyRequest* request,
                          inference::ModelReadyResponse* response) override {
    return control_.ModelReady(*request, response);
  }
  grpc::Status ServerMetadata(grpc::ServerContext*, const inference::ServerMetadataRequest* request,
                              inference::ServerMetadataResponse* response) override {
    return control_.ServerMetadata(*request, response);
  }
  grpc::Status ModelMetadata(grpc::ServerContext*, const inference::ModelMetadataRequest* request,
                             inference::ModelMetadataResponse* response) override {
    return control_.ModelMetadata(*request, response);
  }
  grpc::Status ModelConfig(grpc::ServerContext*, const inference::ModelConfigRequest* request,
                           inference::ModelConfigResponse* response) override {
    return control_.ModelConfig(*request, response);
  }
  grpc::Status ModelStatistics(grpc::ServerContext*,
                               const inference::ModelStatisticsRequest* request,
                               inference::ModelStatisticsResponse* response) override {
    return control_.ModelStatistics(*request, response);
  }
  grpc::Status RepositoryIndex(grpc::ServerContext*,
                               const inference::RepositoryIndexRequest* request,
                               inference::RepositoryIndexResponse* response) override {
    return control_.RepositoryIndex(*request, response);
  }

  grpc::Status ModelInfer(grpc::ServerContext*, const inference::ModelInferRequest*,
                          inference::ModelInferResponse*) override {
    return RefuseInference();
  }
  grpc::Status ModelStreamInfer(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<inference::ModelStreamInferResponse, inference::ModelInferRequest>*)
      override {
    return RefuseInference();
  }
  grpc::Status RepositoryModelLoad(grpc::ServerContext* context,
                                   const inference::RepositoryModelLoadRequest* request,
                                   inference::RepositoryModelLoadResponse*) override;
  grpc::Status RepositoryModelUnload(grpc::ServerContext* context,
                                     const inference::RepositoryModelUnloadRequest* request,
                                     inference::RepositoryModelUnloadResponse*) override;

 private:
  grpc::Status RefuseInference() const;

  ControlHandlerImpl control_;
  Repository repository_;
  const std::string inference_address_;
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_ADMIN_INFERENCE_SERVICE_H_
