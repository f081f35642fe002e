#include "server/rpc/admin_inference_service.h"

#include "absl/strings/str_cat.h"
#include "server/rpc/status.h"
#include "server/telemetry/log.h"

namespace belfry::rpc {

grpc::Status AdminInferenceService::RepositoryModelLoad(
    grpc::ServerContext* context, const inference::RepositoryModelLoadRequest* request,
    inference::RepositoryModelLoadResponse*) {
  telemetry::LogInfo("load asked for",
                     {{"model", request->model_name()}, {"by", context->peer()}});
  return ToGrpc(repository_.Load(*request, [context] { return context->IsCancelled(); }));
}

grpc::Status AdminInferenceService::RepositoryModelUnload(
    grpc::ServerContext* context, const inference::RepositoryModelUnloadRequest* request,
    inference::RepositoryModelUnloadResponse*) {
  telemetry::LogInfo("unload asked for",
                     {{"model", request->model_name()}, {"by", context->peer()}});
  return ToGrpc(repository_.Unload(*request, [context] { return context->IsCancelled(); }));
}

grpc::Status AdminInferenceService::RefuseInference() const {
  return ToGrpc(absl::UnimplementedError(
      absl::StrCat("inference is offered on the inference listener (", inference_address_,
                   "), not on the admin listener")));
}

}  // namespace belfry::rpc
