// What the admin service tells of a version.
#ifndef BELFRY_SERVER_RPC_VERSION_INFO_H_
#define BELFRY_SERVER_RPC_VERSION_INFO_H_

#include <string>

#include "proto/registry.pb.h"
#include "server/rpc/control_handler_impl.h"
#include "server/serving/manager.h"
#include "server/telemetry/model_metrics.h"

namespace belfry::rpc {

v1::VersionState ToProto(serving::VersionState state);

// The version that the catalog resolves "" to is the default one.
v1::VersionSummary Summarize(const Backend& backend, const serving::VersionStatus& status);

// 'explain': also why the artifact was not in the cache (asks the cache).
v1::VersionDetail Detail(const Backend& backend, const serving::VersionStatus& status,
                         bool explain);

void FillMetrics(const telemetry::ModelMetrics& metrics, v1::MetricsSummary* out);

// By name, then by number.
void SortVersions(std::vector<serving::VersionStatus>* versions);

// A decimal version as a number; 0 if it is none.
int64_t VersionNumber(const std::string& version);

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_VERSION_INFO_H_
