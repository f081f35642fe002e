#include "device/card/warm_inputs.h"

#include <errno.h>
#include <sys/mman.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "device/channel/layout.h"
#include "device/manifest/expression.h"

namespace belfry::card {
namespace {

absl::StatusOr<SymbolValues> ReadShape(
    const Signature& signature, const std::vector<std::pair<std::string, int64_t>>& shape) {
  SymbolValues values;
  for (const auto& [name, value] : shape) {
    const auto it = signature.symbols.find(name);
    if (it != signature.symbols.end() && (value < it->second.min || value > it->second.max)) {
      return absl::InvalidArgumentError(absl::StrCat("warm-up with ", name, " = ", value,
                                                     ", expected ", it->second.min, " to ",
                                                     it->second.max));
    }
    values.emplace(name, value);
  }
  return values;
}

// A tensor without memory yet.
absl::StatusOr<belfry_tensor> Describe(const TensorSpec& spec, const SymbolValues& values) {
  belfry_tensor tensor = {};
  tensor.dtype = static_cast<uint8_t>(spec.dtype);
  tensor.rank = static_cast<uint8_t>(spec.dims.size());
  // An empty string of BYTES is its length alone: four zero bytes.
  uint64_t bytes = spec.dtype == DataType::kBytes ? 4 : DataTypeSize(spec.dtype);
  bool empty = false;
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    auto size = EvaluateDim(spec.dims[d], values);
    if (!size.ok()) {
      return absl::Status(size.status().code(), absl::StrCat("warm-up of input '", spec.name,
                                                             "': ", size.status().message()));
    }
    tensor.dims[d] = *size;
    if (*size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(*size), &bytes) ||
               bytes > WarmInputs::kMaxBytes) {
      return absl::InvalidArgumentError(absl::StrCat("warm-up of input '", spec.name,
                                                     "': more than ", WarmInputs::kMaxBytes,
                                                     " bytes"));
    }
  }
  tensor.bytes = empty ? 0 : bytes;
  return tensor;
}

}  // namespace

absl::StatusOr<WarmInputs> WarmInputs::Make(
    const Signature& signature, const std::vector<std::pair<std::string, int64_t>>& shape) {
  auto values = ReadShape(signature, shape);
  if (!values.ok()) return values.status();
  WarmInputs w;
  uint64_t end = 0;
  for (const TensorSpec& spec : signature.inputs) {
    auto tensor = Describe(spec, *values);
    if (!tensor.ok()) return tensor.status();
    w.tensors_.push_back(*tensor);
    end += (tensor->bytes / channel::kTensorAlign + 1) * channel::kTensorAlign;
  }
  w.bytes_ = std::max<uint64_t>(end, 1);
  void* base = mmap(nullptr, w.bytes_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("warm-up: no memory for ", w.bytes_,
                                                     " bytes of inputs"));
  }
  w.base_ = base;
  auto* at = static_cast<uint8_t*>(base);
  for (belfry_tensor& tensor : w.tensors_) {
    tensor.data = at;
    at += (tensor.bytes / channel::kTensorAlign + 1) * channel::kTensorAlign;
  }
  return w;
}

WarmInputs::~WarmInputs() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

}  // namespace belfry::card
