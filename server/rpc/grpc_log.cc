#include "server/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <atomic>

#include "server/telemetry/log.h"

namespace belfry::rpc {
namespace {

std::atomic<bool> quiet{false};

void Forward(gpr_log_func_args* args) {
  const telemetry::LogFields fields = {{"message", args->message}, {"line", args->line}};
  if (quiet.load(std::memory_order_relaxed)) return telemetry::LogDebug("grpc", fields);
  switch (args->severity) {
    case GPR_LOG_SEVERITY_DEBUG:
      return telemetry::LogDebug("grpc", fields);
    case GPR_LOG_SEVERITY_INFO:
      return telemetry::LogDebug("grpc", fields);  // of interest to gRPC's developers
    case GPR_LOG_SEVERITY_ERROR:
      // Mostly about a single connection: not our error.
      return telemetry::LogWarning("grpc", fields);
  }
}

}  // namespace

void SendGrpcLogToOurs() { gpr_set_log_function(Forward); }

QuietGrpcLog::QuietGrpcLog() { quiet.store(true, std::memory_order_relaxed); }
QuietGrpcLog::~QuietGrpcLog() { quiet.store(false, std::memory_order_relaxed); }

}  // namespace belfry::rpc
