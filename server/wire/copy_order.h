// The functions of copy.h for a host of a given byte order. copy.cc binds them
// to this host's; tests run the other one as well.
#ifndef BELFRY_SERVER_WIRE_COPY_ORDER_H_
#define BELFRY_SERVER_WIRE_COPY_ORDER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/channel/dtype.h"
#include "server/wire/copy.h"
#include "server/wire/request.h"

namespace belfry::wire::order {

template <std::endian kHost>
void CopyIn(const Payload& payload, std::span<const int64_t> source_shape, int axis,
            int64_t first_row, DataType dtype, uint8_t* tensor, const Box& box);

template <std::endian kHost>
void CopyInBytes(const Payload& payload, uint8_t* tensor);

template <std::endian kHost>
void CopyOut(const uint8_t* tensor, const Box& box, DataType dtype, uint8_t* out,
             std::span<const int64_t> out_shape, int axis, int64_t first_row);

template <std::endian kHost>
bool CopyOutBytes(const uint8_t* tensor, size_t size, int64_t elements, uint8_t* out);

}  // namespace belfry::wire::order

#endif  // BELFRY_SERVER_WIRE_COPY_ORDER_H_
