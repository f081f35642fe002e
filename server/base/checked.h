// Arithmetic on sizes that come from outside. Nothing else in the server
// multiplies dimensions.
#ifndef BELFRY_SERVER_BASE_CHECKED_H_
#define BELFRY_SERVER_BASE_CHECKED_H_

#include <cstdint>
#include <optional>
#include <span>

namespace belfry {

// nullopt on overflow or when a factor is negative.
inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t out;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t out;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// The product of all dimensions (1 for a scalar); nullopt on overflow or when
// one is negative. A zero among them does not hide an overflow of the others.
inline std::optional<int64_t> CheckedElementCount(std::span<const int64_t> dims) {
  int64_t nonzero = 1;
  bool zero = false;
  for (int64_t d : dims) {
    if (d == 0) {
      zero = true;
      continue;
    }
    const auto next = CheckedMul(nonzero, d);
    if (!next) return std::nullopt;
    nonzero = *next;
  }
  return zero ? 0 : nonzero;
}

}  // namespace belfry

#endif  // BELFRY_SERVER_BASE_CHECKED_H_
