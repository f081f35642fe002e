// Signatures for this room's tests.
#ifndef BELFRY_SERVER_RPC_TESTING_H_
#define BELFRY_SERVER_RPC_TESTING_H_

#include "device/manifest/manifest.h"
#include "server/scheduling/model_queue.h"
#include "server/serving/catalog.h"

namespace belfry::rpc {

inline Dim Fixed(int64_t size) { return {.kind = Dim::Kind::kFixed, .size = size, .text = ""}; }
inline Dim Symbol(const char* name) {
  return {.kind = Dim::Kind::kSymbol, .size = 0, .text = name};
}

// x FP32 [7,batch,220], batch axis 1 -> score FP32 [batch,1], batch axis 0.
inline Signature FraudSignature() {
  Signature signature;
  signature.inputs = {{.name = "x",
                       .dtype = DataType::kFp32,
                       .dims = {Fixed(7), Symbol("batch"), Fixed(220)},
                       .batch_axis = 1,
                       .pad_value = 0}};
  signature.outputs = {{.name = "score",
                        .dtype = DataType::kFp32,
                        .dims = {Symbol("batch"), Fixed(1)},
                        .batch_axis = 0,
                        .pad_value = 0}};
  signature.symbols["batch"] = {.min = 1, .max = 1024};
  signature.batchable = true;
  signature.batch_symbol = "batch";
  return signature;
}

// The same along the first axis everywhere.
inline Signature FirstAxisSignature() {
  Signature signature = FraudSignature();
  signature.inputs[0].dims = {Symbol("batch"), Fixed(30)};
  signature.inputs[0].batch_axis = 0;
  return signature;
}

inline scheduling::QueueOptions QueueFor(const Signature& signature) {
  scheduling::QueueOptions options;
  options.model = "m";
  options.version = "1";
  options.signature = signature;
  options.join = signature.batchable;
  options.limits.max_rows = 64;
  options.metrics = std::make_shared<telemetry::ModelMetrics>();
  return options;
}

inline serving::VersionEntry Entry(const std::string& model, const std::string& version,
                                   serving::VersionState state, const Signature& signature) {
  serving::VersionEntry entry;
  entry.model = model;
  entry.version = version;
  entry.state = state;
  entry.platform = "aoti";
  entry.signature = std::make_shared<const Signature>(signature);
  if (state == serving::VersionState::kReady) {
    entry.queue = std::make_shared<scheduling::ModelQueue>(QueueFor(signature));
  }
  return entry;
}

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_TESTING_H_
