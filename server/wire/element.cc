#include "server/wire/element.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace belfry::wire {

namespace {

// Rounds a double to a binary format of 16 bits straight away, so that nothing
// is rounded twice.
template <int kExponentBits, int kFractionBits>
uint16_t Round16(double value) {
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr int kMinExponent = 1 - kBias;  // of normal numbers
  constexpr uint16_t kInfinity = ((1 << kExponentBits) - 1) << kFractionBits;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | kInfinity | (1 << (kFractionBits - 1));
  if (std::isinf(value)) return sign | kInfinity;
  if (value == 0) return sign;
  int exponent;
  std::frexp(value, &exponent);  // |value| in [0.5, 1) * 2^exponent
  exponent = std::max(exponent - 1, kMinExponent);
  // The number in units of its last place: below 2^(fraction bits + 1), exact
  // but for the rounding (to even, the default mode of the environment).
  const double units = std::nearbyint(std::ldexp(std::fabs(value), kFractionBits - exponent));
  // Carries of the rounding run into the exponent on their own.
  const double biased = exponent - kMinExponent;
  const double bits = units + biased * (1 << kFractionBits);
  if (bits >= kInfinity) return sign | (kInfinity - 1);
  return sign | static_cast<uint16_t>(bits);
}

template <typename Int>
Int Saturate(double value) {
  if (std::isnan(value)) return 0;
  // The bounds as doubles: the upper one may round up to 2^63 or 2^64.
  if (value <= static_cast<double>(std::numeric_limits<Int>::min())) {
    return std::numeric_limits<Int>::min();
  }
  if (value >= static_cast<double>(std::numeric_limits<Int>::max())) {
    return std::numeric_limits<Int>::max();
  }
  return static_cast<Int>(value);
}

float ToFloat(double value) {
  if (std::isfinite(value)) {
    constexpr double kMax = std::numeric_limits<float>::max();
    if (value > kMax) return std::numeric_limits<float>::max();
    if (value < -kMax) return -std::numeric_limits<float>::max();
  }
  return static_cast<float>(value);
}

template <typename T>
size_t Put(T value, uint8_t out[8]) {
  std::memcpy(out, &value, sizeof(T));
  return sizeof(T);
}

}  // namespace

uint16_t HalfFromDouble(double value) { return Round16<5, 10>(value); }
uint16_t Bfloat16FromDouble(double value) { return Round16<8, 7>(value); }

float HalfToFloat(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0x1f) {
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
}

float Bfloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

size_t StoreElement(double value, DataType dtype, uint8_t out[8]) {
  switch (dtype) {
    case DataType::kBool:
      return Put<uint8_t>(value != 0, out);
    case DataType::kUint8:
      return Put(Saturate<uint8_t>(value), out);
    case DataType::kUint16:
      return Put(Saturate<uint16_t>(value), out);
    case DataType::kUint32:
      return Put(Saturate<uint32_t>(value), out);
    case DataType::kUint64:
      return Put(Saturate<uint64_t>(value), out);
    case DataType::kInt8:
      return Put(Saturate<int8_t>(value), out);
    case DataType::kInt16:
      return Put(Saturate<int16_t>(value), out);
    case DataType::kInt32:
      return Put(Saturate<int32_t>(value), out);
    case DataType::kInt64:
      return Put(Saturate<int64_t>(value), out);
    case DataType::kFp16:
      return Put(HalfFromDouble(value), out);
    case DataType::kBf16:
      return Put(Bfloat16FromDouble(value), out);
    case DataType::kFp32:
      return Put(ToFloat(value), out);
    case DataType::kFp64:
      return Put(value, out);
    case DataType::kBytes:
    case DataType::kInvalid:
      return 0;
  }
  return 0;
}

}  // namespace belfry::wire
