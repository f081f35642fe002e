#include "device/cpu/tensors.h"

#include <ATen/ops/from_blob.h>

#include <cstdio>
#include <cstring>

#include "device/channel/dtype.h"

namespace belfry::cpu {
namespace {

constexpr uint64_t kAlign = 64;

template <typename... Args>
belfry_outcome Fail(belfry_call* call, belfry_outcome outcome, const char* format, Args... args) {
  std::snprintf(call->error.text, sizeof call->error.text, format, args...);
  return outcome;
}

const char* Name(std::optional<uint8_t> dtype) {
  return dtype ? DataTypeName(static_cast<DataType>(*dtype)).data() : "a type of no name";
}

void CopyDense(const at::Tensor& tensor, void* to) {
  if (tensor.numel() == 0) return;
  if (tensor.is_contiguous() && !tensor.is_neg()) {
    std::memcpy(to, tensor.const_data_ptr(), tensor.nbytes());
    return;
  }
  at::from_blob(to, tensor.sizes(), tensor.options()).copy_(tensor);
}

belfry_outcome WriteOne(const at::Tensor& tensor, uint8_t dtype, size_t index, uint64_t* at,
                        belfry_call* call) {
  const std::optional<uint8_t> got = FromTorch(tensor.scalar_type());
  if (got != dtype || !tensor.device().is_cpu() || tensor.layout() != at::kStrided) {
    return Fail(call, BELFRY_MODEL_ERROR, "output %zu is %s, expected a dense %s", index,
                Name(got), Name(dtype));
  }
  if (tensor.dim() > BELFRY_DRIVER_MAX_RANK) {
    return Fail(call, BELFRY_MODEL_ERROR, "output %zu has rank %lld, expected at most %d", index,
                static_cast<long long>(tensor.dim()), BELFRY_DRIVER_MAX_RANK);
  }
  const uint64_t bytes = static_cast<uint64_t>(tensor.numel()) * tensor.element_size();
  if (*at > call->output_memory_bytes || bytes > call->output_memory_bytes - *at) {
    return Fail(call, BELFRY_OUTPUT_TOO_LARGE,
                "output %zu of %llu bytes does not fit the %llu bytes of output memory", index,
                static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(call->output_memory_bytes));
  }
  belfry_tensor& out = call->outputs[index];
  out = {};
  out.dtype = dtype;
  out.rank = static_cast<uint8_t>(tensor.dim());
  for (int64_t d = 0; d < tensor.dim(); ++d) out.dims[d] = tensor.size(d);
  out.data = static_cast<uint8_t*>(call->output_memory) + *at;
  out.bytes = bytes;
  CopyDense(tensor, out.data);
  *at += (bytes + kAlign - 1) / kAlign * kAlign;
  return BELFRY_OK;
}

}  // namespace

std::optional<at::ScalarType> ToTorch(uint8_t dtype) {
  switch (static_cast<DataType>(dtype)) {
    case DataType::kBool: return at::kBool;
    case DataType::kUint8: return at::kByte;
    case DataType::kUint16: return at::kUInt16;
    case DataType::kUint32: return at::kUInt32;
    case DataType::kUint64: return at::kUInt64;
    case DataType::kInt8: return at::kChar;
    case DataType::kInt16: return at::kShort;
    case DataType::kInt32: return at::kInt;
    case DataType::kInt64: return at::kLong;
    case DataType::kFp16: return at::kHalf;
    case DataType::kBf16: return at::kBFloat16;
    case DataType::kFp32: return at::kFloat;
    case DataType::kFp64: return at::kDouble;
    case DataType::kBytes:
    case DataType::kInvalid: break;
  }
  return std::nullopt;
}

std::optional<uint8_t> FromTorch(at::ScalarType type) {
  for (int d = 1; d < kDataTypeCount; ++d) {
    const auto dtype = static_cast<uint8_t>(d);
    if (ToTorch(dtype) == type) return dtype;
  }
  return std::nullopt;
}

std::vector<at::Tensor> ViewInputs(const belfry_tensor* inputs, uint32_t count) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const belfry_tensor& in = inputs[i];
    const auto type = ToTorch(in.dtype);
    TORCH_CHECK(type.has_value(), "input ", i, " is ", Name(in.dtype),
                ", which libtorch does not have");
    tensors.push_back(
        at::from_blob(in.data, at::IntArrayRef(in.dims, in.rank), at::TensorOptions(*type)));
  }
  return tensors;
}

belfry_outcome WriteOutputs(const std::vector<at::Tensor>& tensors,
                            const std::vector<uint8_t>& dtypes, belfry_call* call) {
  if (tensors.size() != dtypes.size() || tensors.size() > call->output_capacity) {
    return Fail(call, BELFRY_MODEL_ERROR, "%zu outputs, expected %zu", tensors.size(),
                dtypes.size());
  }
  uint64_t at = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const belfry_outcome outcome = WriteOne(tensors[i], dtypes[i], i, &at, call);
    if (outcome != BELFRY_OK) return outcome;
  }
  call->output_count = static_cast<uint32_t>(tensors.size());
  return BELFRY_OK;
}

}  // namespace belfry::cpu
