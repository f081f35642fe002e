// From the bytes of a ModelInferRequest to a job in a queue, whichever way the
// bytes came (unary call or stream).
#ifndef BELFRY_SERVER_RPC_INFER_HANDLER_H_
#define BELFRY_SERVER_RPC_INFER_HANDLER_H_

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/scheduling/dispatcher.h"
#include "server/scheduling/job.h"
#include "server/serving/catalog.h"
#include "server/telemetry/metrics.h"
#include "server/wire/decode.h"

namespace belfry::rpc {

// A request under way. Dropping it gives its share of the memory limit back.
struct InferTicket {
  std::shared_ptr<scheduling::Job> job;  // null if refused
  std::string id;                        // the request's, as far as it could be read
  telemetry::GaugeToken bytes;
};

// Thread-safe.
class InferHandler {
 public:
  InferHandler(wire::DecodeLimits limits, int64_t max_in_flight_bytes,
               const serving::Catalog* catalog, scheduling::Dispatcher* dispatcher,
               telemetry::Metrics* metrics)
      : limits_(limits),
        max_in_flight_bytes_(max_in_flight_bytes),
        catalog_(catalog),
        dispatcher_(dispatcher),
        metrics_(metrics) {}

  // Decodes, validates and submits. OK: the sink gets the answer, maybe before
  // this returns. Otherwise the sink is not called. Refusals are counted: for
  // the version that the request names once that is known, else as rejected.
  absl::Status Start(grpc::ByteBuffer message, MonoNs deadline, scheduling::AnswerSink* sink,
                     InferTicket* ticket);

  void Cancel(const InferTicket& ticket) {
    if (ticket.job != nullptr) dispatcher_->Cancel(ticket.job);
  }

 private:
  absl::Status Submit(const serving::VersionEntry& entry, wire::Request* request, MonoNs accepted,
                      MonoNs deadline, scheduling::AnswerSink* sink, InferTicket* ticket);

  const wire::DecodeLimits limits_;
  const int64_t max_in_flight_bytes_;
  const serving::Catalog* const catalog_;
  scheduling::Dispatcher* const dispatcher_;
  telemetry::Metrics* const metrics_;
  std::atomic<int64_t> in_flight_bytes_{0};
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_INFER_HANDLER_H_
