// The two gRPC listeners.
#ifndef BELFRY_SERVER_RPC_SERVER_H_
#define BELFRY_SERVER_RPC_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/rpc/listen_address.h"
#include "server/scheduling/dispatcher.h"

namespace belfry::rpc {

struct Backend;

struct ServerOptions {
  ListenAddress listen;        // inference
  ListenAddress admin_listen;  // admin
  int max_message_mb = 128;    // of one message, either way
  int64_t max_in_flight_bytes = 1ll << 30;
  int queues = 0;              // of the inference listener; 0: by cores
  absl::Duration drain_timeout = absl::Seconds(30);
  std::function<void()> request_exit;  // an admin asked for the end
};

// Owns both listeners, their services and the publisher of health. Thread-safe.
// The backend and the dispatcher must outlive it; backend->readiness is marked
// through MarkDraining.
class Server {
 public:
  // Both listen when this returns. UNAVAILABLE or ALREADY_EXISTS with the
  // address and the system's words if one cannot.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options, Backend* backend,
                                                       scheduling::Dispatcher* dispatcher);
  ~Server();

  // With the real ports.
  const std::string& inference_address() const;
  const std::string& admin_address() const;

  // Health and readiness say no from now on; calls are still answered.
  void MarkDraining();

  // Stops accepting; calls that still run are cancelled after 'grace'. Blocks
  // until no call is left. Once.
  void Shutdown(absl::Duration grace);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_SERVER_H_
