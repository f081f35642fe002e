// The inference half of the gRPC surface: ModelInfer on completion queues and
// ModelStreamInfer, both on raw bytes; every other method is forwarded to a
// ControlHandler. README.md of this room tells why queues and not callbacks.
#ifndef BELFRY_SERVER_RPC_INFER_FRONTEND_H_
#define BELFRY_SERVER_RPC_INFER_FRONTEND_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/rpc/control_handler.h"
#include "server/scheduling/dispatcher.h"
#include "server/serving/catalog.h"
#include "server/telemetry/metrics.h"
#include "server/wire/decode.h"

namespace belfry::rpc {

struct InferOptions {
  int queues = 0;               // completion queues, each with a thread; 0: by cores
  int calls_per_queue = 256;    // pre-posted
  int64_t max_in_flight_bytes = 1ll << 30;  // request bytes held at once
  int max_in_flight_per_stream = 64;
  wire::DecodeLimits decode;
};

// Owns the completion queues, their threads and the calls on them. Order:
// construct, AddTo(builder), builder.BuildAndStart(), Start(), …,
// server.Shutdown(deadline), Stop().
class InferFrontend {
 public:
  InferFrontend(InferOptions options, const serving::Catalog* catalog,
                scheduling::Dispatcher* dispatcher, telemetry::Metrics* metrics,
                ControlHandler* control);
  ~InferFrontend();

  void AddTo(grpc::ServerBuilder* builder);
  void Start();
  // After Server::Shutdown: drains the queues and joins their threads.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_INFER_FRONTEND_H_
