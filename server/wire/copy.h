// Moves tensor rows between requests, a card's arenas and responses, changing
// byte order where the host is big-endian. The only place that touches payload
// bytes: once on the way in, once on the way out.
#ifndef BELFRY_SERVER_WIRE_COPY_H_
#define BELFRY_SERVER_WIRE_COPY_H_

#include <cstdint>
#include <span>

#include "device/channel/dtype.h"
#include "server/wire/request.h"

namespace belfry::wire {

// A box of a dense row-major tensor: 'extent' elements from 'origin' on, in a
// tensor of shape 'shape'. All three have the same rank.
struct Box {
  std::span<const int64_t> shape;
  std::span<const int64_t> origin;
  std::span<const int64_t> extent;
};

// Wire -> arena. Writes rows [first_row, first_row + box.extent[axis]) of the
// payload, whose own shape is 'source_shape' (equal to box.extent but for
// 'axis'; axis -1: the whole tensor), into the box at 'tensor' (host order).
// The caller has checked that payload.size fits source_shape and that the box
// lies within the memory at 'tensor'. dtype must have a fixed size. BOOL: any
// byte but 0 becomes 1, here and in CopyOut; nothing else ever reaches a card.
void CopyIn(const Payload& payload, std::span<const int64_t> source_shape, int axis,
            int64_t first_row, DataType dtype, uint8_t* tensor, const Box& box);

// BYTES, whole tensor: copies the serialized elements (length prefixes are
// converted to host order). Writes payload.size bytes.
void CopyInBytes(const Payload& payload, uint8_t* tensor);

// Arena -> wire: the box of 'tensor' goes to rows [first_row, …) along 'axis' of
// the dense little-endian tensor at 'out', whose shape is 'out_shape'.
void CopyOut(const uint8_t* tensor, const Box& box, DataType dtype, uint8_t* out,
             std::span<const int64_t> out_shape, int axis, int64_t first_row);

// BYTES, whole tensor of 'size' serialized bytes. Returns false if the
// elements do not add up to 'size' or are not 'elements' many; 'out' is all
// zeroes then, and the answer must not be sent.
bool CopyOutBytes(const uint8_t* tensor, size_t size, int64_t elements, uint8_t* out);

// Fills every element of the tensor that lies outside the box with 'value'
// (converted to dtype, saturating). Nothing to do if the box covers it. dtype
// must have a fixed size.
void FillOutside(uint8_t* tensor, DataType dtype, const Box& box, double value);

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_COPY_H_
