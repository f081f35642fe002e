// Loads and stores of fixed byte order, and the one switch that says whether
// payloads must be swapped. The wire is little-endian; arenas are in host order.
#ifndef BELFRY_SERVER_WIRE_BYTE_ORDER_H_
#define BELFRY_SERVER_WIRE_BYTE_ORDER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace belfry::wire {

template <size_t kBytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = uint8_t;
};
template <>
struct UnsignedOf<2> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = uint64_t;
};

template <typename U>
constexpr U ByteSwap(U v) {
  static_assert(std::is_unsigned_v<U>);
  if constexpr (sizeof(U) == 2) return __builtin_bswap16(v);
  if constexpr (sizeof(U) == 4) return __builtin_bswap32(v);
  if constexpr (sizeof(U) == 8) return __builtin_bswap64(v);
  return v;
}

// The value of type T that lies at 'p', any alignment, in byte order kOrder.
template <std::endian kOrder, typename T>
T LoadAs(const void* p) {
  using U = typename UnsignedOf<sizeof(T)>::type;
  U raw;
  std::memcpy(&raw, p, sizeof(raw));
  if constexpr (kOrder != std::endian::native) raw = ByteSwap(raw);
  return std::bit_cast<T>(raw);
}

template <std::endian kOrder, typename T>
void StoreAs(void* p, T value) {
  using U = typename UnsignedOf<sizeof(T)>::type;
  U raw = std::bit_cast<U>(value);
  if constexpr (kOrder != std::endian::native) raw = ByteSwap(raw);
  std::memcpy(p, &raw, sizeof(raw));
}

template <typename T>
T LoadLittle(const void* p) {
  return LoadAs<std::endian::little, T>(p);
}

template <typename T>
void StoreLittle(void* p, T value) {
  StoreAs<std::endian::little, T>(p, value);
}

// Swaps every element of 'size' bytes in place; element: 1, 2, 4 or 8 bytes.
void SwapElements(uint8_t* data, size_t size, size_t element);

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_BYTE_ORDER_H_
