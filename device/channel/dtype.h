// The tensor element types of the Open Inference Protocol v2, as the channel,
// the manifest and the server speak of them.
#ifndef BELFRY_DEVICE_CHANNEL_DTYPE_H_
#define BELFRY_DEVICE_CHANNEL_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace belfry {

// The numeric values are part of the channel's memory layout: append only.
enum class DataType : uint8_t {
  kInvalid = 0,
  kBool = 1,
  kUint8 = 2,
  kUint16 = 3,
  kUint32 = 4,
  kUint64 = 5,
  kInt8 = 6,
  kInt16 = 7,
  kInt32 = 8,
  kInt64 = 9,
  kFp16 = 10,
  kBf16 = 11,
  kFp32 = 12,
  kFp64 = 13,
  // Variable length: each element is a uint32 length and that many bytes.
  kBytes = 14,
};

inline constexpr int kDataTypeCount = 15;

// "FP32", "BYTES", …; "INVALID" for kInvalid and for values out of range.
std::string_view DataTypeName(DataType type);

// The inverse of DataTypeName, exact case; nullopt for anything else.
std::optional<DataType> ParseDataType(std::string_view name);

// Bytes of one element; 0 for BYTES (variable) and kInvalid.
size_t DataTypeSize(DataType type);

}  // namespace belfry

#endif  // BELFRY_DEVICE_CHANNEL_DTYPE_H_
