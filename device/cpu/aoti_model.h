// A model that AOTInductor compiled. The one place that sees libtorch; this
// header does not.
#ifndef BELFRY_DEVICE_CPU_AOTI_MODEL_H_
#define BELFRY_DEVICE_CPU_AOTI_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/driver.h"

namespace belfry::cpu {

// Owns the loaded shared object and its runner. Run and Warm may be called at
// the same time from two threads. No exception leaves a function.
class AotiModel {
 public:
  // 'outputs': the types (belfry::DataType) of the outputs that the manifest
  // lists. nullptr and *error if it cannot be loaded.
  static std::unique_ptr<AotiModel> Load(const std::string& so_path, std::vector<uint8_t> outputs,
                                         int threads, std::string* error);
  ~AotiModel();

  // Runs on call->inputs where they lie and writes the outputs, densely, to
  // call->output_memory. Gives the outcome; on failure the reason is in
  // call->error.
  belfry_outcome Run(belfry_call* call);

  // Runs and throws the answer away.
  bool Warm(const belfry_tensor* inputs, uint32_t count, std::string* error);

 private:
  class Impl;
  explicit AotiModel(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// "2.13.0+cpu": of the libtorch that this was built with.
const char* TorchVersion();

// Initializes what libtorch initializes on first use, for 'threads' host
// threads an execution.
void InitTorch(int threads);

}  // namespace belfry::cpu

#endif  // BELFRY_DEVICE_CPU_AOTI_MODEL_H_
