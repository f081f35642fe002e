#include "device/channel/check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "device/channel/dtype.h"
#include "device/channel/text.h"

namespace belfry::channel {
namespace {

// The number of bytes of a dense tensor; nullopt if it is more than an int64. A
// zero among the dims does not excuse an overflow of the others.
std::optional<uint64_t> DenseBytes(const TensorDesc& t, size_t item) {
  int64_t product = static_cast<int64_t>(item);
  bool empty = false;
  for (int d = 0; d < t.rank; ++d) {
    if (t.dims[d] == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, t.dims[d], &product)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : static_cast<uint64_t>(product);
}

std::string Shape(const TensorDesc& t) {
  return absl::StrCat("[", absl::StrJoin(std::span(t.dims, t.rank), ", "), "]");
}

template <typename... Parts>
absl::Status Bad(size_t index, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("tensor ", index, ": ", parts...));
}

absl::Status CheckOne(size_t index, const TensorDesc& t, uint64_t arena_bytes) {
  const auto dtype = static_cast<DataType>(t.dtype);
  const size_t item = DataTypeSize(dtype);
  if (item == 0 && dtype != DataType::kBytes) {
    return Bad(index, "dtype ", t.dtype, ", expected 1 to ", kDataTypeCount - 1);
  }
  if (t.rank > kMaxRank) return Bad(index, "rank ", t.rank, ", expected at most ", kMaxRank);
  for (int d = 0; d < t.rank; ++d) {
    if (t.dims[d] < 0) return Bad(index, "shape ", Shape(t), ", expected no negative size");
  }
  const std::optional<uint64_t> dense = DenseBytes(t, std::max<size_t>(item, 1));
  if (!dense) return Bad(index, "shape ", Shape(t), " overflows");
  if (item != 0 && t.bytes != *dense) {
    return Bad(index, t.bytes, " bytes, expected ", *dense, " for ", AbslView(DataTypeName(dtype)), " ",
               Shape(t));
  }
  if (t.offset % kTensorAlign != 0) {
    return Bad(index, "offset ", t.offset, ", expected a multiple of ", kTensorAlign);
  }
  if (t.offset > arena_bytes || t.bytes > arena_bytes - t.offset) {
    return Bad(index, "range [", t.offset, ", +", t.bytes, "), expected within an arena of ",
               arena_bytes, " bytes");
  }
  return absl::OkStatus();
}

// All ranges lie inside the arena already, so no sum overflows.
absl::Status CheckDisjoint(std::span<const TensorDesc> tensors) {
  std::array<uint16_t, kMaxTensors> order;
  size_t n = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].bytes != 0) order[n++] = static_cast<uint16_t>(i);
  }
  std::sort(order.begin(), order.begin() + n, [&](uint16_t a, uint16_t b) {
    return tensors[a].offset < tensors[b].offset;
  });
  for (size_t i = 1; i < n; ++i) {
    const TensorDesc& before = tensors[order[i - 1]];
    const TensorDesc& after = tensors[order[i]];
    if (before.offset + before.bytes > after.offset) {
      return Bad(order[i], "range [", after.offset, ", +", after.bytes, ") overlaps tensor ",
                 order[i - 1], " at [", before.offset, ", +", before.bytes, ")");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTensors(std::span<const TensorDesc> tensors, uint64_t arena_bytes) {
  if (tensors.size() > kMaxTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat(tensors.size(), " tensors, expected at most ", kMaxTensors));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (auto s = CheckOne(i, tensors[i], arena_bytes); !s.ok()) return s;
  }
  return CheckDisjoint(tensors);
}

absl::Status CopyChecked(const TensorDesc* shared, uint32_t count, uint64_t arena_bytes,
                         std::vector<TensorDesc>* out) {
  out->clear();
  if (count > kMaxTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " tensors, expected at most ", kMaxTensors));
  }
  out->resize(count);
  if (count != 0) std::memcpy(out->data(), shared, count * sizeof(TensorDesc));
  // The compiler must not go back to shared memory for what it has copied.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  absl::Status status = CheckTensors(*out, arena_bytes);
  if (!status.ok()) {
    out->clear();
    return status;
  }
  for (TensorDesc& t : *out) std::fill(t.dims + t.rank, t.dims + kMaxRank, 0);
  return status;
}

}  // namespace belfry::channel
