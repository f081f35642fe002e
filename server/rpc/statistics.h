// The statistics extension.
#ifndef BELFRY_SERVER_RPC_STATISTICS_H_
#define BELFRY_SERVER_RPC_STATISTICS_H_

#include <memory>

#include "absl/status/status.h"
#include "proto/open_inference.pb.h"
#include "server/rpc/control_handler_impl.h"
#include "server/telemetry/model_metrics.h"

namespace belfry::rpc {

// One version, or all READY versions of one model, or of all.
absl::Status DescribeStatistics(const Backend& backend,
                                const inference::ModelStatisticsRequest& request,
                                inference::ModelStatisticsResponse* response);

// README.md of this room tells what each figure means here.
void FillStatistics(const telemetry::ModelMetrics& metrics, inference::ModelStatistics* out);

// The figures of a version that has served or may serve; null for one that
// never did, so that asking makes no empty series.
std::shared_ptr<telemetry::ModelMetrics> MetricsOf(const Backend& backend,
                                                   const serving::VersionEntry& entry);

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_STATISTICS_H_
