// Checks the tensor descriptors that the other side wrote.
#ifndef BELFRY_DEVICE_CHANNEL_CHECK_H_
#define BELFRY_DEVICE_CHANNEL_CHECK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "device/channel/layout.h"

namespace belfry::channel {

// Copies 'count' descriptors from shared memory to '*out' and checks the copies:
// count <= kMaxTensors; dtype known; rank <= kMaxRank; dims >= 0; bytes = product
// of dims x item size, without overflow (BYTES: any number of bytes); the range
// inside an arena of 'arena_bytes', aligned to kTensorAlign, and disjoint from
// the others'. dims[rank ..] of the copies are zero.
//
// INVALID_ARGUMENT names the tensor by its number, what came and what was
// expected; '*out' is empty then. Allocates nothing if out->capacity() is
// enough and the descriptors are good. 'shared' is read exactly once; 'count'
// must be the caller's private copy.
absl::Status CopyChecked(const TensorDesc* shared, uint32_t count, uint64_t arena_bytes,
                         std::vector<TensorDesc>* out);

// The same checks on descriptors in private memory.
absl::Status CheckTensors(std::span<const TensorDesc> tensors, uint64_t arena_bytes);

}  // namespace belfry::channel

#endif  // BELFRY_DEVICE_CHANNEL_CHECK_H_
