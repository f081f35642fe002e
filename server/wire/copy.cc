#include "server/wire/copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "server/wire/byte_order.h"
#include "server/wire/copy_order.h"

namespace belfry::wire {

namespace {

// Walks the box of a tensor and the same elements of a dense one in runs that
// are contiguous in both. For each: use(offset in tensor, offset in dense,
// elements); offsets in elements, those of the dense one ascending.
template <typename Use>
void ForEachRun(const Box& box, std::span<const int64_t> dense_shape, int axis, int64_t first_row,
                Use&& use) {
  const int rank = static_cast<int>(box.shape.size());
  for (const int64_t n : box.extent) {
    if (n == 0) return;
  }
  // 'inner': the first dimension of a run. A run may begin one dimension further
  // out as long as the box spans the whole of this one in both tensors.
  int inner = rank;
  int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= box.extent[inner];
    if (box.extent[inner] != box.shape[inner] || box.extent[inner] != dense_shape[inner]) break;
  }
  absl::InlinedVector<int64_t, 12> tensor_stride(rank), dense_stride(rank), index(rank, 0);
  int64_t tensor_step = 1, dense_step = 1, tensor_at = 0, dense_at = 0;
  for (int d = rank - 1; d >= 0; --d) {
    tensor_stride[d] = tensor_step;
    dense_stride[d] = dense_step;
    tensor_at += box.origin[d] * tensor_step;
    if (d == axis) dense_at += first_row * dense_step;
    tensor_step *= box.shape[d];
    dense_step *= dense_shape[d];
  }
  for (;;) {
    use(tensor_at, dense_at, run);
    int d = inner - 1;
    for (; d >= 0; --d) {
      tensor_at += tensor_stride[d];
      dense_at += dense_stride[d];
      if (++index[d] < box.extent[d]) break;
      tensor_at -= box.extent[d] * tensor_stride[d];
      dense_at -= box.extent[d] * dense_stride[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// Reads a payload at ascending offsets.
class SegmentReader {
 public:
  explicit SegmentReader(const Payload& payload) : payload_(payload) {}

  void Read(size_t offset, size_t bytes, uint8_t* out) {
    while (bytes > 0) {
      const Segment& s = payload_.segments[index_];
      if (offset >= begin_ + s.size) {
        begin_ += s.size;
        ++index_;
        continue;
      }
      const size_t in = offset - begin_;
      const size_t n = std::min(bytes, s.size - in);
      std::memcpy(out, s.data + in, n);
      out += n;
      offset += n;
      bytes -= n;
    }
  }

 private:
  const Payload& payload_;
  size_t index_ = 0;
  size_t begin_ = 0;  // offset of segment index_ in the payload
};

// A client's byte that is neither 0 nor 1 counts as true. Compiled code may
// take such a bool for anything, so none reaches a card.
void NormaliseBools(uint8_t* data, size_t size) {
  for (size_t i = 0; i < size; ++i) data[i] = data[i] != 0;
}

// After a copy, in place: elements that were cut by a segment's end are whole
// by then.
template <std::endian kHost>
void Convert(DataType dtype, uint8_t* data, size_t bytes) {
  if (dtype == DataType::kBool) {
    NormaliseBools(data, bytes);
  } else if constexpr (kHost == std::endian::big) {
    SwapElements(data, bytes, DataTypeSize(dtype));
  }
}

template <typename U>
void SwapAll(uint8_t* data, size_t size) {
  for (size_t i = 0; i + sizeof(U) <= size; i += sizeof(U)) {
    U value;
    std::memcpy(&value, data + i, sizeof(U));
    value = ByteSwap(value);
    std::memcpy(data + i, &value, sizeof(U));
  }
}

}  // namespace

void SwapElements(uint8_t* data, size_t size, size_t element) {
  switch (element) {
    case 2:
      return SwapAll<uint16_t>(data, size);
    case 4:
      return SwapAll<uint32_t>(data, size);
    case 8:
      return SwapAll<uint64_t>(data, size);
    default:
      return;
  }
}

namespace order {

template <std::endian kHost>
void CopyIn(const Payload& payload, std::span<const int64_t> source_shape, int axis,
            int64_t first_row, DataType dtype, uint8_t* tensor, const Box& box) {
  const size_t width = DataTypeSize(dtype);
  SegmentReader reader(payload);
  ForEachRun(box, source_shape, axis, first_row, [&](int64_t to, int64_t from, int64_t n) {
    uint8_t* const out = tensor + static_cast<size_t>(to) * width;
    const size_t bytes = static_cast<size_t>(n) * width;
    reader.Read(static_cast<size_t>(from) * width, bytes, out);
    Convert<kHost>(dtype, out, bytes);
  });
}

template <std::endian kHost>
void CopyInBytes(const Payload& payload, uint8_t* tensor) {
  SegmentReader(payload).Read(0, payload.size, tensor);
  if constexpr (kHost == std::endian::big) {
    // The decoder has walked the elements; the bounds here are for a caller
    // that did not ask it.
    size_t at = 0;
    while (payload.size - at >= sizeof(uint32_t)) {
      const uint32_t length = LoadLittle<uint32_t>(tensor + at);
      StoreAs<kHost>(tensor + at, length);
      at += sizeof(uint32_t);
      if (length > payload.size - at) return;
      at += length;
    }
  }
}

template <std::endian kHost>
void CopyOut(const uint8_t* tensor, const Box& box, DataType dtype, uint8_t* out,
             std::span<const int64_t> out_shape, int axis, int64_t first_row) {
  const size_t width = DataTypeSize(dtype);
  ForEachRun(box, out_shape, axis, first_row, [&](int64_t from, int64_t to, int64_t n) {
    uint8_t* const target = out + static_cast<size_t>(to) * width;
    const size_t bytes = static_cast<size_t>(n) * width;
    std::memcpy(target, tensor + static_cast<size_t>(from) * width, bytes);
    Convert<kHost>(dtype, target, bytes);
  });
}

template <std::endian kHost>
bool CopyOutElements(const uint8_t* tensor, size_t size, int64_t elements, uint8_t* out) {
  size_t at = 0;
  int64_t count = 0;
  for (; at < size; ++count) {
    if (count == elements || size - at < sizeof(uint32_t)) return false;
    // Read once: the arena belongs to the card, which may change it meanwhile.
    const uint32_t length = LoadAs<kHost, uint32_t>(tensor + at);
    StoreLittle(out + at, length);
    at += sizeof(uint32_t);
    if (length > size - at) return false;
    if (length > 0) std::memcpy(out + at, tensor + at, length);
    at += length;
  }
  return count == elements;
}

template <std::endian kHost>
bool CopyOutBytes(const uint8_t* tensor, size_t size, int64_t elements, uint8_t* out) {
  if (CopyOutElements<kHost>(tensor, size, elements, out)) return true;
  // 'out' is fresh memory: what the process had there before must not leave it.
  if (size > 0) std::memset(out, 0, size);
  return false;
}

template void CopyIn<std::endian::little>(const Payload&, std::span<const int64_t>, int, int64_t,
                                          DataType, uint8_t*, const Box&);
template void CopyIn<std::endian::big>(const Payload&, std::span<const int64_t>, int, int64_t,
                                       DataType, uint8_t*, const Box&);
template void CopyInBytes<std::endian::little>(const Payload&, uint8_t*);
template void CopyInBytes<std::endian::big>(const Payload&, uint8_t*);
template void CopyOut<std::endian::little>(const uint8_t*, const Box&, DataType, uint8_t*,
                                           std::span<const int64_t>, int, int64_t);
template void CopyOut<std::endian::big>(const uint8_t*, const Box&, DataType, uint8_t*,
                                        std::span<const int64_t>, int, int64_t);
template bool CopyOutBytes<std::endian::little>(const uint8_t*, size_t, int64_t, uint8_t*);
template bool CopyOutBytes<std::endian::big>(const uint8_t*, size_t, int64_t, uint8_t*);

}  // namespace order

void CopyIn(const Payload& payload, std::span<const int64_t> source_shape, int axis,
            int64_t first_row, DataType dtype, uint8_t* tensor, const Box& box) {
  order::CopyIn<std::endian::native>(payload, source_shape, axis, first_row, dtype, tensor, box);
}

void CopyInBytes(const Payload& payload, uint8_t* tensor) {
  order::CopyInBytes<std::endian::native>(payload, tensor);
}

void CopyOut(const uint8_t* tensor, const Box& box, DataType dtype, uint8_t* out,
             std::span<const int64_t> out_shape, int axis, int64_t first_row) {
  order::CopyOut<std::endian::native>(tensor, box, dtype, out, out_shape, axis, first_row);
}

bool CopyOutBytes(const uint8_t* tensor, size_t size, int64_t elements, uint8_t* out) {
  return order::CopyOutBytes<std::endian::native>(tensor, size, elements, out);
}

}  // namespace belfry::wire
