// How requests of a version are batched: what its signature allows, narrowed by
// what model.yaml wants.
#ifndef BELFRY_SERVER_SERVING_QUEUE_PLAN_H_
#define BELFRY_SERVER_SERVING_QUEUE_PLAN_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "device/manifest/manifest.h"
#include "server/scheduling/model_queue.h"
#include "server/serving/model_config.h"

namespace belfry::serving {

// Most rows of an execution when nobody says.
inline constexpr int64_t kDefaultMaxBatch = 1024;

// Everything of QueueOptions that signature, configuration and compile report
// determine; model, version, executable and metrics are left to the caller.
// FAILED_PRECONDITION names all wishes of model.yaml that the signature does not
// allow. A model that turned out not to be batchable is served one request at a
// time whatever model.yaml wishes of batches: that is no fault.
absl::StatusOr<scheduling::QueueOptions> PlanQueue(const ModelConfig& config,
                                                   const Signature& signature,
                                                   std::string_view report_json);

// The batch size for which the compile has checked that a row's answer does not
// depend on its neighbours to the bit; 0 if the report tells none.
int64_t DeterministicSize(std::string_view report_json);

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_QUEUE_PLAN_H_
