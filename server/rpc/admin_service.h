// belfry.v1.Admin on the admin listener.
#ifndef BELFRY_SERVER_RPC_ADMIN_SERVICE_H_
#define BELFRY_SERVER_RPC_ADMIN_SERVICE_H_

#include <functional>
#include <string>
#include <vector>

#include "proto/registry.grpc.pb.h"
#include "server/rpc/control_handler_impl.h"

namespace belfry::rpc {

struct AdminOptions {
  absl::Duration drain_timeout = absl::Seconds(30);
  // Makes the server not ready, for good.
  std::function<void()> mark_draining;
  // Ends the process as SIGTERM does; returns at once.
  std::function<void()> request_exit;
};

// Synchronous: a call that waits holds a thread of the admin listener, which
// has a bounded number of them. Thread-safe. Owns nothing of the backend.
class AdminService final : public v1::Admin::Service {
 public:
  AdminService(const Backend* backend, AdminOptions options)
      : backend_(backend), options_(std::move(options)) {}

  grpc::Status Load(grpc::ServerContext* context, const v1::LoadRequest* request,
                    v1::LoadResponse* response) override;
  grpc::Status Unload(grpc::ServerContext* context, const v1::UnloadRequest* request,
                      v1::UnloadResponse* response) override;
  grpc::Status List(grpc::ServerContext* context, const v1::ListRequest* request,
                    v1::ListResponse* response) override;
  grpc::Status Show(grpc::ServerContext* context, const v1::ShowRequest* request,
                    v1::ShowResponse* response) override;
  grpc::Status Cards(grpc::ServerContext* context, const v1::CardsRequest* request,
                     v1::CardsResponse* response) override;
  grpc::Status Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                     v1::DrainResponse* response) override;

 private:
  // The version that the request is about, once its load has begun.
  absl::StatusOr<std::pair<std::string, std::string>> BeginLoad(const v1::LoadRequest& request);
  absl::StatusOr<std::pair<std::string, std::string>> BeginNamedLoad(
      const v1::LoadRequest& request);
  // version 0: all. NOT_FOUND if there is none.
  absl::StatusOr<std::vector<serving::VersionStatus>> VersionsOf(const std::string& model,
                                                                 int64_t version) const;
  int64_t InFlight() const;

  const Backend* const backend_;
  const AdminOptions options_;
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_ADMIN_SERVICE_H_
