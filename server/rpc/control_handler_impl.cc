#include "server/rpc/control_handler_impl.h"

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "server/rpc/metadata.h"
#include "server/rpc/model_config.h"
#include "server/rpc/statistics.h"
#include "server/rpc/status.h"

namespace belfry::rpc {

grpc::Status ControlHandlerImpl::ServerLive(const inference::ServerLiveRequest&,
                                            inference::ServerLiveResponse* response) {
  response->set_live(true);
  return grpc::Status::OK;
}

grpc::Status ControlHandlerImpl::ServerReady(const inference::ServerReadyRequest&,
                                             inference::ServerReadyResponse* response) {
  response->set_ready(backend_->readiness->ServerReady());
  return grpc::Status::OK;
}

grpc::Status ControlHandlerImpl::ModelReady(const inference::ModelReadyRequest& request,
                                            inference::ModelReadyResponse* response) {
  const auto ready = backend_->readiness->ModelReady(request.name(), request.version());
  if (!ready.ok()) return ToGrpc(ready.status());
  response->set_ready(*ready);
  return grpc::Status::OK;
}

grpc::Status ControlHandlerImpl::ServerMetadata(const inference::ServerMetadataRequest&,
                                                inference::ServerMetadataResponse* response) {
  DescribeServer(backend_->server_version, response);
  return grpc::Status::OK;
}

grpc::Status ControlHandlerImpl::ModelMetadata(const inference::ModelMetadataRequest& request,
                                               inference::ModelMetadataResponse* response) {
  return ToGrpc(DescribeModel(*backend_->catalog, request, response));
}

grpc::Status ControlHandlerImpl::ModelConfig(const inference::ModelConfigRequest& request,
                                             inference::ModelConfigResponse* response) {
  return ToGrpc(DescribeConfig(*backend_, request, response));
}

grpc::Status ControlHandlerImpl::ModelStatistics(const inference::ModelStatisticsRequest& request,
                                                 inference::ModelStatisticsResponse* response) {
  return ToGrpc(DescribeStatistics(*backend_, request, response));
}

grpc::Status ControlHandlerImpl::RepositoryIndex(const inference::RepositoryIndexRequest& request,
                                                 inference::RepositoryIndexResponse* response) {
  return ToGrpc(repository_.Index(request, response));
}

grpc::Status ControlHandlerImpl::RepositoryModelLoad(const inference::RepositoryModelLoadRequest&,
                                                     inference::RepositoryModelLoadResponse*) {
  return RefuseChange("RepositoryModelLoad");
}

grpc::Status ControlHandlerImpl::RepositoryModelUnload(
    const inference::RepositoryModelUnloadRequest&, inference::RepositoryModelUnloadResponse*) {
  return RefuseChange("RepositoryModelUnload");
}

grpc::Status ControlHandlerImpl::RefuseChange(std::string_view method) const {
  return ToGrpc(absl::PermissionDeniedError(absl::StrCat(
      AbslView(method), " is offered on the admin listener (", admin_address_, ") only")));
}

}  // namespace belfry::rpc
