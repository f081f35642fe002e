#include "server/cli/tensor_json.h"

#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "device/channel/text.h"

namespace belfry::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxRank = 12;
constexpr int64_t kEdge = 4;       // elements shown at either end of a long dimension
constexpr int64_t kLongest = 12;   // a dimension up to this is shown whole

bool IsFloating(DataType dtype) {
  return dtype == DataType::kFp16 || dtype == DataType::kBf16 || dtype == DataType::kFp32 ||
         dtype == DataType::kFp64;
}

// The first element, to tell the dtype and the shape by.
const Json* FirstLeaf(const Json& json) {
  const Json* at = &json;
  while (at->is_array()) {
    if (at->empty()) return nullptr;
    at = &(*at)[0];
  }
  return at;
}

DataType DtypeOf(const Json& json) {
  const Json* leaf = FirstLeaf(json);
  if (leaf == nullptr) return DataType::kFp32;
  if (leaf->is_boolean()) return DataType::kBool;
  if (leaf->is_string() || leaf->is_object()) return DataType::kBytes;
  if (leaf->is_number_integer()) return DataType::kInt64;
  return DataType::kFp32;
}

absl::StatusOr<Element> LeafOf(const Json& json, DataType dtype) {
  if (json.is_boolean()) return Element(json.get<bool>());
  if (json.is_number_unsigned()) return Element(json.get<uint64_t>());
  if (json.is_number_integer()) return Element(json.get<int64_t>());
  if (json.is_number()) return Element(json.get<double>());
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    if (!IsFloating(dtype)) return Element(text);
    if (text == "NaN") return Element(std::nan(""));
    if (text == "Infinity") return Element(INFINITY + 0.0);
    if (text == "-Infinity") return Element(-INFINITY + 0.0);
  }
  if (json.is_object() && json.size() == 1 && json.contains("base64") &&
      json["base64"].is_string()) {
    std::string bytes;
    if (absl::Base64Unescape(json["base64"].get<std::string>(), &bytes)) return Element(bytes);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(json.dump().substr(0, 64), " is no ", AbslView(DataTypeName(dtype))));
}

absl::Status Collect(const Json& json, size_t depth, Tensor* out) {
  if (depth < out->shape.size()) {
    if (!json.is_array() || static_cast<int64_t>(json.size()) != out->shape[depth]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the lists are not even: expected ", out->shape[depth], " elements at depth ", depth,
          ", got ", json.is_array() ? absl::StrCat(json.size()) : "no list"));
    }
    for (const Json& item : json) {
      if (auto status = Collect(item, depth + 1, out); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  const auto element = LeafOf(json, out->dtype);
  if (!element.ok()) return element.status();
  return AppendElement(*element, out->dtype, &out->data);
}

Json JsonOf(const Element& element) {
  if (const auto* value = std::get_if<double>(&element)) {
    if (std::isnan(*value)) return "NaN";
    if (std::isinf(*value)) return *value > 0 ? "Infinity" : "-Infinity";
    return *value;
  }
  if (const auto* text = std::get_if<std::string>(&element)) {
    try {
      Json(*text).dump();  // throws where it is no UTF-8
      return *text;
    } catch (const Json::exception&) {
      std::string encoded;
      absl::Base64Escape(*text, &encoded);
      return {{"base64", encoded}};
    }
  }
  if (const auto* value = std::get_if<bool>(&element)) return *value;
  if (const auto* value = std::get_if<uint64_t>(&element)) return *value;
  return std::get<int64_t>(element);
}

Json Nested(const std::vector<Element>& elements, const std::vector<int64_t>& shape, size_t depth,
            size_t* next) {
  if (depth == shape.size()) return JsonOf(elements[(*next)++]);
  Json out = Json::array();
  for (int64_t i = 0; i < shape[depth]; ++i) {
    out.push_back(Nested(elements, shape, depth + 1, next));
  }
  return out;
}

std::string TextOf(const Element& element) {
  if (const auto* value = std::get_if<double>(&element)) return absl::StrFormat("%.6g", *value);
  if (const auto* text = std::get_if<std::string>(&element)) {
    return absl::StrCat("\"", absl::Utf8SafeCEscape(*text), "\"");
  }
  return JsonOf(element).dump();
}

// The sub-tensor whose first element is 'first' and which has 'size' elements.
std::string TextOf(const std::vector<Element>& elements, const std::vector<int64_t>& shape,
                   size_t depth, int64_t first, int64_t size) {
  if (depth == shape.size()) return TextOf(elements[static_cast<size_t>(first)]);
  const int64_t n = shape[depth];
  const bool inner = depth + 1 == shape.size();
  const std::string gap = inner ? ", " : absl::StrCat(",\n", std::string(depth + 1, ' '));
  std::string out = "[";
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0) absl::StrAppend(&out, gap);
    if (n > kLongest && i == kEdge) {
      absl::StrAppend(&out, "...");
      i = n - kEdge - 1;
      continue;
    }
    absl::StrAppend(&out, TextOf(elements, shape, depth + 1, first + i * (size / n), size / n));
  }
  return out + "]";
}

}  // namespace

absl::StatusOr<Tensor> TensorFromJson(std::string_view text, DataType dtype) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("not JSON");
  Tensor out;
  out.dtype = dtype == DataType::kInvalid ? DtypeOf(json) : dtype;
  for (const Json* at = &json; at->is_array(); at = &(*at)[0]) {
    if (out.shape.size() == kMaxRank) return absl::InvalidArgumentError("nested too deeply");
    out.shape.push_back(static_cast<int64_t>(at->size()));
    if (at->empty()) break;
  }
  if (auto status = Collect(json, 0, &out); !status.ok()) return status;
  return out;
}

absl::StatusOr<Json> TensorToJson(const Tensor& tensor) {
  const auto elements = Elements(tensor);
  if (!elements.ok()) return elements.status();
  size_t next = 0;
  return Nested(*elements, tensor.shape, 0, &next);
}

absl::StatusOr<std::string> TensorToText(const Tensor& tensor) {
  const auto elements = Elements(tensor);
  if (!elements.ok()) return elements.status();
  if (elements->empty()) return std::string("[]");
  return TextOf(*elements, tensor.shape, 0, 0, tensor.elements());
}

}  // namespace belfry::cli
