#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "server/base/checked.h"
#include "server/wire/byte_order.h"
#include "server/wire/element.h"
#include "server/wire/encode.h"
#include "server/wire/text.h"

namespace belfry::wire {

namespace {

struct Bool {
  using Value = int;
  static constexpr size_t kWidth = 1;
  static Value Load(const uint8_t* p) { return *p != 0; }
};
struct Half {
  using Value = float;
  static constexpr size_t kWidth = 2;
  static Value Load(const uint8_t* p) { return HalfToFloat(LoadLittle<uint16_t>(p)); }
};
struct Bfloat16 {
  using Value = float;
  static constexpr size_t kWidth = 2;
  static Value Load(const uint8_t* p) { return Bfloat16ToFloat(LoadLittle<uint16_t>(p)); }
};
template <typename T>
struct Plain {
  using Value = T;
  static constexpr size_t kWidth = sizeof(T);
  static Value Load(const uint8_t* p) { return LoadLittle<T>(p); }
};

template <typename Value>
bool Nan(Value v) {
  if constexpr (std::is_floating_point_v<Value>) return std::isnan(v);
  return false;
}

// "value:index" or "value:index:label"; the value in the fewest digits that
// read back as the same number.
template <typename Value>
void AppendClass(Value value, int64_t index, std::span<const std::string> labels,
                 std::string* out) {
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  const std::string_view number = Nan(value) ? "nan" : std::string_view(digits, end - digits);
  const size_t at = out->size();
  out->append(sizeof(uint32_t), '\0');
  Append(out, number, ":", index);
  if (static_cast<size_t>(index) < labels.size() && !labels[index].empty()) {
    Append(out, ":", labels[index]);
  }
  StoreLittle<uint32_t>(out->data() + at,
                        static_cast<uint32_t>(out->size() - at - sizeof(uint32_t)));
}

// The serialized elements of all rows.
template <typename Element>
std::string ClassifyRows(const uint8_t* data, int64_t rows, int64_t classes, int64_t k,
                         std::span<const std::string> labels) {
  using Value = typename Element::Value;
  std::string out;
  std::vector<Value> values(classes);
  std::vector<int64_t> order(classes);
  for (int64_t row = 0; row < rows; ++row) {
    for (Value& v : values) {
      v = Element::Load(data);
      data += Element::kWidth;
    }
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
      if (Nan(values[a]) != Nan(values[b])) return Nan(values[b]);
      if (values[a] > values[b]) return true;
      if (values[b] > values[a]) return false;
      return a < b;
    });
    for (int64_t i = 0; i < k; ++i) AppendClass(values[order[i]], order[i], labels, &out);
  }
  return out;
}

using RowsFunction = std::string (*)(const uint8_t*, int64_t, int64_t, int64_t,
                                     std::span<const std::string>);

RowsFunction FunctionFor(DataType dtype) {
  switch (dtype) {
    case DataType::kBool:
      return ClassifyRows<Bool>;
    case DataType::kUint8:
      return ClassifyRows<Plain<uint8_t>>;
    case DataType::kUint16:
      return ClassifyRows<Plain<uint16_t>>;
    case DataType::kUint32:
      return ClassifyRows<Plain<uint32_t>>;
    case DataType::kUint64:
      return ClassifyRows<Plain<uint64_t>>;
    case DataType::kInt8:
      return ClassifyRows<Plain<int8_t>>;
    case DataType::kInt16:
      return ClassifyRows<Plain<int16_t>>;
    case DataType::kInt32:
      return ClassifyRows<Plain<int32_t>>;
    case DataType::kInt64:
      return ClassifyRows<Plain<int64_t>>;
    case DataType::kFp16:
      return ClassifyRows<Half>;
    case DataType::kBf16:
      return ClassifyRows<Bfloat16>;
    case DataType::kFp32:
      return ClassifyRows<Plain<float>>;
    case DataType::kFp64:
      return ClassifyRows<Plain<double>>;
    case DataType::kBytes:
    case DataType::kInvalid:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<ResponseTensor> Classify(ResponseTensor tensor, uint32_t k,
                                        std::span<const std::string> labels) {
  if (k == 0) return tensor;
  const RowsFunction function = FunctionFor(tensor.dtype);
  if (function == nullptr || tensor.shape.empty()) {
    return absl::InvalidArgumentError(Cat(
        "output '", tensor.name, "': classification of a ", DataTypeName(tensor.dtype),
        " tensor of rank ", tensor.shape.size(), ", expected numbers and a rank of at least 1"));
  }
  const auto elements = CheckedElementCount(tensor.shape);
  const auto bytes =
      elements ? CheckedMul(*elements, static_cast<int64_t>(DataTypeSize(tensor.dtype)))
               : std::nullopt;
  if (!bytes || static_cast<uint64_t>(*bytes) != tensor.data.size()) {
    return absl::InternalError(Cat("output '", tensor.name, "': has ",
                                            tensor.data.size(), " bytes, expected ",
                                            bytes.value_or(-1), " for its shape"));
  }
  const int64_t classes = tensor.shape.back();
  const int64_t kept = std::min<int64_t>(k, classes);
  const int64_t rows = *elements == 0 ? 0 : *elements / classes;
  const std::string text = function(tensor.data.data(), rows, classes, kept, labels);

  ResponseTensor result{.name = tensor.name, .dtype = DataType::kBytes, .shape = tensor.shape,
                        .data = OutputBuffer(text.size())};
  result.shape.back() = kept;
  if (!text.empty()) std::memcpy(result.data.data(), text.data(), text.size());
  return result;
}

}  // namespace belfry::wire
