#include "server/cli/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "device/channel/text.h"
#include "server/base/checked.h"
#include "server/cli/half.h"

namespace belfry::cli {
namespace {

template <typename T>
T SwapIfBig(T value) {
  if constexpr (std::endian::native == std::endian::big) {
    auto* bytes = reinterpret_cast<unsigned char*>(&value);
    for (size_t i = 0; i < sizeof(T) / 2; ++i) std::swap(bytes[i], bytes[sizeof(T) - 1 - i]);
  }
  return value;
}

template <typename T>
void Append(T value, std::string* data) {
  const T little = SwapIfBig(value);
  data->append(reinterpret_cast<const char*>(&little), sizeof little);
}

template <typename T>
T Read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return SwapIfBig(value);
}

std::string Show(const Element& element) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
        else if constexpr (std::is_same_v<T, std::string>) return "a string";
        else return absl::StrCat(value);
      },
      element);
}

absl::Status DoesNotFit(const Element& element, DataType dtype) {
  return absl::InvalidArgumentError(
      absl::StrCat(Show(element), " is no ", AbslView(DataTypeName(dtype))));
}

template <typename T>
absl::Status AppendInteger(const Element& element, DataType dtype, std::string* data) {
  if (const auto* i = std::get_if<int64_t>(&element); i != nullptr && std::in_range<T>(*i)) {
    Append(static_cast<T>(*i), data);
    return absl::OkStatus();
  }
  if (const auto* u = std::get_if<uint64_t>(&element); u != nullptr && std::in_range<T>(*u)) {
    Append(static_cast<T>(*u), data);
    return absl::OkStatus();
  }
  return DoesNotFit(element, dtype);
}

absl::Status AppendFloat(const Element& element, DataType dtype, std::string* data) {
  double value = 0;
  if (const auto* d = std::get_if<double>(&element)) {
    value = *d;
  } else if (const auto* i = std::get_if<int64_t>(&element)) {
    value = static_cast<double>(*i);
  } else if (const auto* u = std::get_if<uint64_t>(&element)) {
    value = static_cast<double>(*u);
  } else {
    return DoesNotFit(element, dtype);
  }
  if (dtype == DataType::kFp64) Append(value, data);
  if (dtype == DataType::kFp32) Append(static_cast<float>(value), data);
  if (dtype == DataType::kFp16) Append(ToFp16(static_cast<float>(value)), data);
  if (dtype == DataType::kBf16) Append(ToBf16(static_cast<float>(value)), data);
  return absl::OkStatus();
}

absl::Status AppendBytes(const Element& element, std::string* data) {
  const auto* text = std::get_if<std::string>(&element);
  if (text == nullptr) return DoesNotFit(element, DataType::kBytes);
  if (!std::in_range<uint32_t>(text->size())) return DoesNotFit(element, DataType::kBytes);
  Append(static_cast<uint32_t>(text->size()), data);
  data->append(*text);
  return absl::OkStatus();
}

Element ReadElement(const char* at, DataType dtype) {
  switch (dtype) {
    case DataType::kBool:
      return *at != 0;
    case DataType::kUint8:
      return static_cast<uint64_t>(Read<uint8_t>(at));
    case DataType::kUint16:
      return static_cast<uint64_t>(Read<uint16_t>(at));
    case DataType::kUint32:
      return static_cast<uint64_t>(Read<uint32_t>(at));
    case DataType::kUint64:
      return Read<uint64_t>(at);
    case DataType::kInt8:
      return static_cast<int64_t>(Read<int8_t>(at));
    case DataType::kInt16:
      return static_cast<int64_t>(Read<int16_t>(at));
    case DataType::kInt32:
      return static_cast<int64_t>(Read<int32_t>(at));
    case DataType::kInt64:
      return Read<int64_t>(at);
    case DataType::kFp16:
      return static_cast<double>(FromFp16(Read<uint16_t>(at)));
    case DataType::kBf16:
      return static_cast<double>(FromBf16(Read<uint16_t>(at)));
    case DataType::kFp32:
      return static_cast<double>(Read<float>(at));
    case DataType::kFp64:
      return Read<double>(at);
    case DataType::kBytes:
    case DataType::kInvalid:
      break;
  }
  return false;
}

absl::Status Damaged(const Tensor& tensor) {
  return absl::InvalidArgumentError(absl::StrCat(tensor.data.size(), " bytes of data do not fit ",
                                                 Describe(tensor)));
}

absl::StatusOr<std::vector<Element>> BytesElements(const Tensor& tensor, int64_t count) {
  std::vector<Element> out;
  std::string_view rest = tensor.data;
  while (rest.size() >= sizeof(uint32_t)) {
    const uint32_t length = Read<uint32_t>(rest.data());
    rest.remove_prefix(sizeof length);
    if (rest.size() < length) return Damaged(tensor);
    out.emplace_back(std::string(rest.substr(0, length)));
    rest.remove_prefix(length);
  }
  if (!rest.empty() || static_cast<int64_t>(out.size()) != count) return Damaged(tensor);
  return out;
}

}  // namespace

int64_t Tensor::elements() const { return CheckedElementCount(shape).value_or(-1); }

absl::Status AppendElement(const Element& element, DataType dtype, std::string* data) {
  switch (dtype) {
    case DataType::kBool:
      if (!std::holds_alternative<bool>(element)) return DoesNotFit(element, dtype);
      data->push_back(std::get<bool>(element) ? 1 : 0);
      return absl::OkStatus();
    case DataType::kUint8:
      return AppendInteger<uint8_t>(element, dtype, data);
    case DataType::kUint16:
      return AppendInteger<uint16_t>(element, dtype, data);
    case DataType::kUint32:
      return AppendInteger<uint32_t>(element, dtype, data);
    case DataType::kUint64:
      return AppendInteger<uint64_t>(element, dtype, data);
    case DataType::kInt8:
      return AppendInteger<int8_t>(element, dtype, data);
    case DataType::kInt16:
      return AppendInteger<int16_t>(element, dtype, data);
    case DataType::kInt32:
      return AppendInteger<int32_t>(element, dtype, data);
    case DataType::kInt64:
      return AppendInteger<int64_t>(element, dtype, data);
    case DataType::kFp16:
    case DataType::kBf16:
    case DataType::kFp32:
    case DataType::kFp64:
      return AppendFloat(element, dtype, data);
    case DataType::kBytes:
      return AppendBytes(element, data);
    case DataType::kInvalid:
      break;
  }
  return absl::InvalidArgumentError("a tensor needs a datatype");
}

absl::StatusOr<std::vector<Element>> Elements(const Tensor& tensor) {
  const int64_t count = tensor.elements();
  if (count < 0) return Damaged(tensor);
  if (tensor.dtype == DataType::kBytes) return BytesElements(tensor, count);
  const size_t size = DataTypeSize(tensor.dtype);
  const auto bytes = CheckedMul(count, static_cast<int64_t>(size));
  if (size == 0 || !bytes || static_cast<size_t>(*bytes) != tensor.data.size()) {
    return Damaged(tensor);
  }
  std::vector<Element> out;
  out.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(ReadElement(tensor.data.data() + static_cast<size_t>(i) * size, tensor.dtype));
  }
  return out;
}

absl::StatusOr<Tensor> Convert(const Tensor& tensor, DataType dtype) {
  if (tensor.dtype == dtype) return tensor;
  const auto elements = Elements(tensor);
  if (!elements.ok()) return elements.status();
  Tensor out{.dtype = dtype, .shape = tensor.shape, .data = ""};
  for (const Element& element : *elements) {
    if (auto status = AppendElement(element, dtype, &out.data); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(Describe(tensor), ": ", status.message()));
    }
  }
  return out;
}

std::string Describe(const Tensor& tensor) {
  return absl::StrCat(AbslView(DataTypeName(tensor.dtype)), " [",
                      absl::StrJoin(tensor.shape, ","), "]");
}

}  // namespace belfry::cli
