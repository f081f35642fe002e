// Conversions between double and the element types.
#ifndef BELFRY_SERVER_WIRE_ELEMENT_H_
#define BELFRY_SERVER_WIRE_ELEMENT_H_

#include <cstddef>
#include <cstdint>

#include "device/channel/dtype.h"

namespace belfry::wire {

// IEEE half precision and bfloat16, as bit patterns. To nearest, ties to even;
// finite values beyond the largest become the largest, infinities and NaN stay.
uint16_t HalfFromDouble(double value);
uint16_t Bfloat16FromDouble(double value);
float HalfToFloat(uint16_t bits);
float Bfloat16ToFloat(uint16_t bits);

// Writes 'value' as one element of 'dtype' in host order and returns its size.
// Integers saturate and round toward zero, NaN becomes 0; BOOL: anything but 0
// is true. 0 for BYTES, which has no such element.
size_t StoreElement(double value, DataType dtype, uint8_t out[8]);

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_ELEMENT_H_
