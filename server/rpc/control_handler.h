// Every method of the inference service that does not carry tensors, free of
// gRPC's service machinery: translate, call one method below, translate back.
#ifndef BELFRY_SERVER_RPC_CONTROL_HANDLER_H_
#define BELFRY_SERVER_RPC_CONTROL_HANDLER_H_

#include <grpcpp/support/status.h>

#include "proto/open_inference.pb.h"

namespace belfry::rpc {

// Thread-safe.
class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  virtual grpc::Status ServerLive(const inference::ServerLiveRequest& request,
                                  inference::ServerLiveResponse* response) = 0;
  virtual grpc::Status ServerReady(const inference::ServerReadyRequest& request,
                                   inference::ServerReadyResponse* response) = 0;
  virtual grpc::Status ModelReady(const inference::ModelReadyRequest& request,
                                  inference::ModelReadyResponse* response) = 0;
  virtual grpc::Status ServerMetadata(const inference::ServerMetadataRequest& request,
                                      inference::ServerMetadataResponse* response) = 0;
  virtual grpc::Status ModelMetadata(const inference::ModelMetadataRequest& request,
                                     inference::ModelMetadataResponse* response) = 0;
  virtual grpc::Status ModelConfig(const inference::ModelConfigRequest& request,
                                   inference::ModelConfigResponse* response) = 0;
  virtual grpc::Status ModelStatistics(const inference::ModelStatisticsRequest& request,
                                       inference::ModelStatisticsResponse* response) = 0;
  virtual grpc::Status RepositoryIndex(const inference::RepositoryIndexRequest& request,
                                       inference::RepositoryIndexResponse* response) = 0;
  virtual grpc::Status RepositoryModelLoad(const inference::RepositoryModelLoadRequest& request,
                                           inference::RepositoryModelLoadResponse* response) = 0;
  virtual grpc::Status RepositoryModelUnload(
      const inference::RepositoryModelUnloadRequest& request,
      inference::RepositoryModelUnloadResponse* response) = 0;
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_CONTROL_HANDLER_H_
