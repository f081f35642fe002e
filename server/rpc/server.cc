#include "server/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "device/channel/text.h"
#include "server/rpc/admin_inference_service.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/grpc_log.h"
#include "server/rpc/health.h"
#include "server/rpc/infer_frontend.h"

namespace belfry::rpc {
namespace {

// Threads of the admin listener, each of which may sit in a call that waits.
constexpr int kAdminThreads = 64;
constexpr int kAdminMessageBytes = 4 << 20;
// For everything but the payloads that the inference calls hold.
constexpr int64_t kConnectionMemory = 256ll << 20;

constexpr int kMinute = 60'000;  // milliseconds

void SetCommonArguments(grpc::ServerBuilder* builder) {
  // Two servers on one port would share its connections at random.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Dead peers are found and idle connections closed; clients open a new one
  // without noticing.
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 2 * kMinute);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60 * kMinute);
  // A client may ping every ten seconds, also without a call; one that floods
  // is sent away.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 3);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 4096);
  // gRPC tests the message limit before it decompresses: a small message could
  // become a very large one. Uncompressed tensors are the rule anyway.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
}

// Starts the server on the address and puts the real port into it.
absl::StatusOr<std::unique_ptr<grpc::Server>> Listen(grpc::ServerBuilder* builder,
                                                     ListenAddress* address) {
  if (auto status = CheckUnixSocketFree(*address); !status.ok()) return status;
  int port = 0;
  builder->AddListeningPort(address->ToString(), grpc::InsecureServerCredentials(), &port);
  std::unique_ptr<grpc::Server> server = builder->BuildAndStart();
  if (server == nullptr || port == 0) {
    if (server != nullptr) server->Shutdown();
    const auto why = ExplainBindFailure(*address);
    if (!why.ok()) return why;
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address->ToString()));
  }
  if (!address->is_unix()) address->port = port;
  return server;
}

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, Backend* backend)
      : options_(std::move(options)),
        backend_(backend),
        admin_inference_(backend, options_.listen.ToString()),
        admin_(backend, {.drain_timeout = options_.drain_timeout,
                         .mark_draining = [this] { MarkDraining(); },
                         .request_exit = options_.request_exit}) {}

  ~Impl() { Shutdown(absl::ZeroDuration()); }

  absl::Status Start(scheduling::Dispatcher* dispatcher) {
    static std::once_flag once;  // process-wide settings of gRPC
    std::call_once(once, [] {
      grpc::EnableDefaultHealthCheckService(true);
      grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    });
    // The admin listener first: the other one names its address.
    if (auto status = StartAdmin(); !status.ok()) return status;
    if (auto status = StartInference(dispatcher); !status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    health_ = std::make_unique<HealthPublisher>(
        backend_->readiness, backend_->catalog,
        std::vector<grpc::HealthCheckServiceInterface*>{
            inference_server_->GetHealthCheckService(), admin_server_->GetHealthCheckService()});
    if (backend_->readiness->draining()) health_->MarkDraining();
    return absl::OkStatus();
  }

  void MarkDraining() {
    backend_->readiness->MarkDraining();
    absl::MutexLock lock(&mutex_);
    if (health_ != nullptr) health_->MarkDraining();
  }

  void Shutdown(absl::Duration grace) {
    const auto deadline = absl::ToChronoTime(absl::Now() + grace);
    if (inference_server_ != nullptr) inference_server_->Shutdown(deadline);
    if (frontend_ != nullptr) frontend_->Stop();
    if (admin_server_ != nullptr) admin_server_->Shutdown(deadline);
    // The services of health go with the servers.
    std::unique_ptr<HealthPublisher> health;
    {
      absl::MutexLock lock(&mutex_);
      health = std::move(health_);
    }
    health.reset();
    inference_server_.reset();
    admin_server_.reset();
    frontend_.reset();
  }

  const std::string& inference_address() const { return inference_address_; }
  const std::string& admin_address() const { return admin_address_; }

 private:
  absl::Status StartAdmin() {
    grpc::ServerBuilder builder;
    SetCommonArguments(&builder);
    grpc::ResourceQuota quota("belfry-admin");
    quota.SetMaxThreads(kAdminThreads);
    quota.Resize(kConnectionMemory);
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(kAdminMessageBytes);
    builder.RegisterService(&admin_);
    builder.RegisterService(&admin_inference_);
    ListenAddress address = options_.admin_listen;
    auto server = Listen(&builder, &address);
    if (!server.ok()) return Named(server.status(), "admin-listen");
    admin_server_ = *std::move(server);
    admin_address_ = address.ToString();
    return absl::OkStatus();
  }

  absl::Status StartInference(scheduling::Dispatcher* dispatcher) {
    control_ = std::make_unique<ControlHandlerImpl>(backend_, admin_address_);
    InferOptions infer;
    infer.queues = options_.queues;
    infer.max_in_flight_bytes = options_.max_in_flight_bytes;
    frontend_ = std::make_unique<InferFrontend>(infer, backend_->catalog, dispatcher,
                                                backend_->metrics, control_.get());
    grpc::ServerBuilder builder;
    SetCommonArguments(&builder);
    // Admission counts request bytes exactly and refuses with a clear error;
    // this is the wall behind it, for what gRPC holds before admission sees it.
    grpc::ResourceQuota quota("belfry-inference");
    quota.Resize(static_cast<size_t>(2 * options_.max_in_flight_bytes + kConnectionMemory));
    builder.SetResourceQuota(quota);
    const int bytes = options_.max_message_mb << 20;
    builder.SetMaxReceiveMessageSize(bytes);
    builder.SetMaxSendMessageSize(bytes);
    frontend_->AddTo(&builder);
    ListenAddress address = options_.listen;
    auto server = Listen(&builder, &address);
    if (!server.ok()) return Named(server.status(), "listen");
    inference_server_ = *std::move(server);
    inference_address_ = address.ToString();
    frontend_->Start();
    return absl::OkStatus();
  }

  static absl::Status Named(const absl::Status& status, std::string_view flag) {
    return absl::Status(status.code(),
                        absl::StrCat(status.message(), " (--", AbslView(flag), ")"));
  }

  const ServerOptions options_;
  Backend* const backend_;
  AdminInferenceService admin_inference_;
  AdminService admin_;
  std::unique_ptr<ControlHandlerImpl> control_;
  std::unique_ptr<InferFrontend> frontend_;
  std::unique_ptr<grpc::Server> admin_server_;
  std::unique_ptr<grpc::Server> inference_server_;
  std::string inference_address_;
  std::string admin_address_;
  absl::Mutex mutex_;
  std::unique_ptr<HealthPublisher> health_ ABSL_GUARDED_BY(mutex_);
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options, Backend* backend,
                                                      scheduling::Dispatcher* dispatcher) {
  const QuietGrpcLog quiet;  // outlives 'impl', whose end gRPC comments too
  auto impl = std::make_unique<Impl>(std::move(options), backend);
  if (auto status = impl->Start(dispatcher); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

const std::string& Server::inference_address() const { return impl_->inference_address(); }
const std::string& Server::admin_address() const { return impl_->admin_address(); }
void Server::MarkDraining() { impl_->MarkDraining(); }
void Server::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace belfry::rpc
