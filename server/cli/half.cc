#include "server/cli/half.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace belfry::cli {

uint16_t ToFp16(float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00;
  if (size == 0) return sign;  // has no exponent to go by
  if (size >= 65520.0f) return sign | 0x7C00;  // rounds to more than the largest
  int exponent = 0;
  std::frexp(size, &exponent);
  // Bits below the last one that is kept: 10 of the mantissa, fewer where the
  // number is subnormal.
  const int ulp = std::max(exponent - 11, -24);
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(size, -ulp)));
  if (ulp == -24) return static_cast<uint16_t>(sign | steps);
  // steps is in [1024, 2048]; the carry into the exponent is right as it is.
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(ulp + 24) << 10) + steps));
}

float FromFp16(uint16_t bits) {
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  if (exponent == 0x1F) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

uint16_t ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float FromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace belfry::cli
