#include "server/cli/client.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "proto/open_inference.grpc.pb.h"
#include "proto/registry.grpc.pb.h"
#include "server/cli/exit_code.h"

namespace belfry::cli {
namespace {

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  // The server decides what is too large.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // Several clients of one process (bench) have connections of their own.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // An administrator's proxy is not meant for this.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

struct Client::Impl {
  // Calls 'method' of a stub and makes the error tell who is speaking.
  template <typename Response, typename Stub, typename Method, typename Request>
  absl::StatusOr<Response> Call(grpc::Channel& channel, const std::string& address, Stub& stub,
                                Method method, const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    Response response;
    const grpc::Status status = (stub.*method)(&context, request, &response);
    if (status.ok()) return response;
    const bool connected = channel.GetState(false) == GRPC_CHANNEL_READY;
    if (!connected && (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                       status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)) {
      return UnreachableError(
          absl::StrCat("no server answers at ", address, ": ", status.error_message()));
    }
    return absl::Status(static_cast<absl::StatusCode>(static_cast<int>(status.error_code())),
                        status.error_message());
  }

  template <typename Response, typename Method, typename Request>
  absl::StatusOr<Response> Admin(Method method, const Request& request) {
    return Call<Response>(*admin_channel, admin_address, *admin, method, request);
  }
  template <typename Response, typename Method, typename Request>
  absl::StatusOr<Response> Inference(Method method, const Request& request) {
    return Call<Response>(*channel, address, *stub, method, request);
  }

  explicit Impl(const Options& options)
      : timeout(options.timeout),
        address(options.server),
        admin_address(options.admin),
        channel(Connect(address)),
        admin_channel(Connect(admin_address)),
        stub(inference::GRPCInferenceService::NewStub(channel)),
        admin(v1::Admin::NewStub(admin_channel)) {}

  const absl::Duration timeout;
  const std::string address, admin_address;
  const std::shared_ptr<grpc::Channel> channel, admin_channel;
  const std::unique_ptr<inference::GRPCInferenceService::Stub> stub;
  const std::unique_ptr<v1::Admin::Stub> admin;
};

Client::Client(Options options)
    : options_(std::move(options)), impl_(std::make_unique<Impl>(options_)) {}
Client::~Client() = default;

using Stub = inference::GRPCInferenceService::Stub;

absl::StatusOr<v1::LoadResponse> Client::Load(const v1::LoadRequest& request) {
  return impl_->Admin<v1::LoadResponse>(&v1::Admin::Stub::Load, request);
}
absl::StatusOr<v1::UnloadResponse> Client::Unload(const v1::UnloadRequest& request) {
  return impl_->Admin<v1::UnloadResponse>(&v1::Admin::Stub::Unload, request);
}
absl::StatusOr<v1::ListResponse> Client::List(const v1::ListRequest& request) {
  return impl_->Admin<v1::ListResponse>(&v1::Admin::Stub::List, request);
}
absl::StatusOr<v1::ShowResponse> Client::Show(const v1::ShowRequest& request) {
  return impl_->Admin<v1::ShowResponse>(&v1::Admin::Stub::Show, request);
}
absl::StatusOr<v1::CardsResponse> Client::Cards() {
  return impl_->Admin<v1::CardsResponse>(&v1::Admin::Stub::Cards, v1::CardsRequest());
}
absl::StatusOr<v1::DrainResponse> Client::Drain(const v1::DrainRequest& request) {
  return impl_->Admin<v1::DrainResponse>(&v1::Admin::Stub::Drain, request);
}

absl::Status Client::ServerLive() {
  return impl_
      ->Inference<inference::ServerLiveResponse>(&Stub::ServerLive, inference::ServerLiveRequest())
      .status();
}

absl::StatusOr<bool> Client::ServerReady() {
  const auto response = impl_->Inference<inference::ServerReadyResponse>(
      &Stub::ServerReady, inference::ServerReadyRequest());
  if (!response.ok()) return response.status();
  return response->ready();
}

absl::StatusOr<bool> Client::ModelReady(const std::string& model, const std::string& version) {
  inference::ModelReadyRequest request;
  request.set_name(model);
  request.set_version(version);
  const auto response =
      impl_->Inference<inference::ModelReadyResponse>(&Stub::ModelReady, request);
  if (!response.ok()) return response.status();
  return response->ready();
}

absl::StatusOr<inference::ServerMetadataResponse> Client::ServerMetadata() {
  return impl_->Inference<inference::ServerMetadataResponse>(&Stub::ServerMetadata,
                                                             inference::ServerMetadataRequest());
}

absl::StatusOr<inference::ModelMetadataResponse> Client::ModelMetadata(
    const std::string& model, const std::string& version) {
  inference::ModelMetadataRequest request;
  request.set_name(model);
  request.set_version(version);
  return impl_->Inference<inference::ModelMetadataResponse>(&Stub::ModelMetadata, request);
}

absl::StatusOr<inference::ModelConfig> Client::ModelConfig(const std::string& model,
                                                           const std::string& version) {
  inference::ModelConfigRequest request;
  request.set_name(model);
  request.set_version(version);
  auto response = impl_->Inference<inference::ModelConfigResponse>(&Stub::ModelConfig, request);
  if (!response.ok()) return response.status();
  return response->config();
}

absl::StatusOr<inference::ModelInferResponse> Client::Infer(
    const inference::ModelInferRequest& request) {
  return impl_->Inference<inference::ModelInferResponse>(&Stub::ModelInfer, request);
}

}  // namespace belfry::cli
