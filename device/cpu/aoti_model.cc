#include "device/cpu/aoti_model.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>

#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "device/cpu/tensors.h"

namespace belfry::cpu {
namespace {

// Two: a warm-up on the control thread and an execution never wait for each
// other. They share the constants.
constexpr size_t kRunners = 2;

// The number of threads is a property of the calling thread in OpenMP, so that
// it is set on each that runs a model.
void UseThreads(int threads) {
  thread_local int current = 0;
  if (current == threads) return;
  at::set_num_threads(threads);
  current = threads;
}

// The text of the exception under way.
std::string CurrentError() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

class AotiModel::Impl {
 public:
  Impl(const std::string& so_path, std::vector<uint8_t> outputs, int threads)
      : runner_(so_path, kRunners), outputs_(std::move(outputs)), threads_(threads) {}

  std::vector<at::Tensor> Execute(const belfry_tensor* inputs, uint32_t count) {
    UseThreads(threads_);
    return runner_.boxed_run(ViewInputs(inputs, count));
  }

  const std::vector<uint8_t>& outputs() const { return outputs_; }

 private:
  torch::inductor::AOTIModelContainerRunnerCpu runner_;
  const std::vector<uint8_t> outputs_;
  const int threads_;
};

AotiModel::AotiModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AotiModel::~AotiModel() = default;

std::unique_ptr<AotiModel> AotiModel::Load(const std::string& so_path, std::vector<uint8_t> outputs,
                                           int threads, std::string* error) {
  try {
    UseThreads(threads);
    return std::unique_ptr<AotiModel>(
        new AotiModel(std::make_unique<Impl>(so_path, std::move(outputs), threads)));
  } catch (...) {
    *error = CurrentError();
    return nullptr;
  }
}

belfry_outcome AotiModel::Run(belfry_call* call) {
  try {
    c10::InferenceMode guard;
    const std::vector<at::Tensor> outputs = impl_->Execute(call->inputs, call->input_count);
    return WriteOutputs(outputs, impl_->outputs(), call);
  } catch (...) {
    std::snprintf(call->error.text, sizeof call->error.text, "%s", CurrentError().c_str());
    return BELFRY_MODEL_ERROR;
  }
}

bool AotiModel::Warm(const belfry_tensor* inputs, uint32_t count, std::string* error) {
  try {
    c10::InferenceMode guard;
    (void)impl_->Execute(inputs, count);
    return true;
  } catch (...) {
    *error = CurrentError();
    return false;
  }
}

const char* TorchVersion() { return BELFRY_TORCH_VERSION; }

void InitTorch(int threads) {
  at::init_num_threads();
  UseThreads(threads);
}

}  // namespace belfry::cpu
