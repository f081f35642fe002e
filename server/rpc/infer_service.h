// The inference service as gRPC sees it: every method on completion queues, the
// two that carry tensors as raw bytes.
#ifndef BELFRY_SERVER_RPC_INFER_SERVICE_H_
#define BELFRY_SERVER_RPC_INFER_SERVICE_H_

#include "proto/open_inference.grpc.pb.h"

namespace belfry::rpc {

namespace internal {
using Base = inference::GRPCInferenceService;
using S1 = Base::WithAsyncMethod_ServerLive<Base::Service>;
using S2 = Base::WithAsyncMethod_ServerReady<S1>;
using S3 = Base::WithAsyncMethod_ModelReady<S2>;
using S4 = Base::WithAsyncMethod_ServerMetadata<S3>;
using S5 = Base::WithAsyncMethod_ModelMetadata<S4>;
using S6 = Base::WithAsyncMethod_ModelConfig<S5>;
using S7 = Base::WithAsyncMethod_ModelStatistics<S6>;
using S8 = Base::WithAsyncMethod_RepositoryIndex<S7>;
using S9 = Base::WithAsyncMethod_RepositoryModelLoad<S8>;
using S10 = Base::WithAsyncMethod_RepositoryModelUnload<S9>;
using S11 = Base::WithRawMethod_ModelInfer<S10>;
}  // namespace internal

using InferService = internal::Base::WithRawMethod_ModelStreamInfer<internal::S11>;

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_INFER_SERVICE_H_
