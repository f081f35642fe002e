// The model configuration extension.
#ifndef BELFRY_SERVER_RPC_MODEL_CONFIG_H_
#define BELFRY_SERVER_RPC_MODEL_CONFIG_H_

#include "absl/status/status.h"
#include "proto/open_inference.pb.h"
#include "server/rpc/control_handler_impl.h"

namespace belfry::rpc {

// What Belfry knows of the version in the words of the extension, the rest as
// parameters under "belfry.": the table stands in README.md.
absl::Status DescribeConfig(const Backend& backend, const inference::ModelConfigRequest& request,
                            inference::ModelConfigResponse* response);

// The part that needs no server: the signature, and the queue's options if the
// version is READY (else null).
void FillConfig(const serving::VersionEntry& entry, const Signature& signature,
                const scheduling::QueueOptions* queue, inference::ModelConfig* config);

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_MODEL_CONFIG_H_
