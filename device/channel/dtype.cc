#include "device/channel/dtype.h"

#include <array>

namespace belfry {
namespace {

struct Row {
  std::string_view name;
  size_t size;
};

constexpr std::array<Row, kDataTypeCount> kTable = {{
    {"INVALID", 0},
    {"BOOL", 1},
    {"UINT8", 1},
    {"UINT16", 2},
    {"UINT32", 4},
    {"UINT64", 8},
    {"INT8", 1},
    {"INT16", 2},
    {"INT32", 4},
    {"INT64", 8},
    {"FP16", 2},
    {"BF16", 2},
    {"FP32", 4},
    {"FP64", 8},
    {"BYTES", 0},
}};

}  // namespace

std::string_view DataTypeName(DataType type) {
  const auto i = static_cast<size_t>(type);
  return i < kTable.size() ? kTable[i].name : kTable[0].name;
}

std::optional<DataType> ParseDataType(std::string_view name) {
  for (size_t i = 1; i < kTable.size(); ++i) {
    if (kTable[i].name == name) return static_cast<DataType>(i);
  }
  return std::nullopt;
}

size_t DataTypeSize(DataType type) {
  const auto i = static_cast<size_t>(type);
  return i < kTable.size() ? kTable[i].size : 0;
}

}  // namespace belfry
