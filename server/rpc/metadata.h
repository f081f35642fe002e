// What the server and a model say of themselves.
#ifndef BELFRY_SERVER_RPC_METADATA_H_
#define BELFRY_SERVER_RPC_METADATA_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "device/manifest/manifest.h"
#include "proto/open_inference.pb.h"
#include "server/serving/catalog.h"

namespace belfry::rpc {

void DescribeServer(std::string_view version, inference::ServerMetadataResponse* response);

// Answers for every version whose signature is known, READY or not: people
// look at metadata to find out what they are about to get.
absl::Status DescribeModel(const serving::Catalog& catalog,
                           const inference::ModelMetadataRequest& request,
                           inference::ModelMetadataResponse* response);

// The size on the wire: -1 for what is not fixed.
int64_t WireDim(const Dim& dim);

// "FP32 [batch,30]", for people; "any" for a tensor of any dtype and shape.
std::string DescribeTensor(const TensorSpec& spec, bool any);

// One line a tensor: "input  x  FP32 [batch,30]  batch axis 0".
std::vector<std::string> DescribeSignature(const Signature& signature);

// The signature, or why it is not known yet.
absl::StatusOr<std::shared_ptr<const Signature>> SignatureOf(const serving::VersionEntry& entry);

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_METADATA_H_
