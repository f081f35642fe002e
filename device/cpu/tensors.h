// Between the driver interface's tensors and libtorch's.
#ifndef BELFRY_DEVICE_CPU_TENSORS_H_
#define BELFRY_DEVICE_CPU_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "device/driver.h"

namespace belfry::cpu {

// nullopt: a type that the other side does not have.
std::optional<at::ScalarType> ToTorch(uint8_t dtype);
std::optional<uint8_t> FromTorch(at::ScalarType type);

// Views of the memory, no copies; throws c10::Error for a type that libtorch
// does not have.
std::vector<at::Tensor> ViewInputs(const belfry_tensor* inputs, uint32_t count);

// Copies the tensors, whatever their strides, densely into the call's output
// memory and describes them. BELFRY_MODEL_ERROR, with the reason, if one is not
// of the type that 'dtypes' says.
belfry_outcome WriteOutputs(const std::vector<at::Tensor>& tensors,
                            const std::vector<uint8_t>& dtypes, belfry_call* call);

}  // namespace belfry::cpu

#endif  // BELFRY_DEVICE_CPU_TENSORS_H_
