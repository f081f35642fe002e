// The part of a manifest that tells a model's tensors, symbols and batching.
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "device/channel/layout.h"
#include "device/manifest/reader.h"

namespace belfry {
namespace {

constexpr size_t kMaxSymbols = 64;
constexpr size_t kMaxTensorName = 256;
constexpr size_t kMaxDimText = 256;
constexpr size_t kMaxReason = 4096;

#define RETURN_IF_ERROR(expr) \
  if (auto status_ = (expr); !status_.ok()) return status_

bool IsIdentifier(std::string_view text) {
  if (text.empty() || absl::ascii_isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return true;
}

absl::Status ReadSymbols(const JsonView& root, Signature* signature) {
  auto symbols = root.Field("symbols");
  if (!symbols.ok()) return symbols.status();
  RETURN_IF_ERROR(symbols->IsObject(kMaxSymbols));
  for (const auto& [name, value] : symbols->value().items()) {
    const JsonView view(value, absl::StrCat("symbols.", name));
    if (!IsIdentifier(name) || name.size() > kMaxDimText) {
      return symbols->Wrong(absl::StrCat("names like \"batch\", not \"", name, "\""));
    }
    SymbolRange range;
    auto min = view.IntField("min", 0, std::numeric_limits<int64_t>::max());
    if (!min.ok()) return min.status();
    range.min = *min;
    if (const auto field = view.Optional("max")) {
      auto max = field->Int(range.min, std::numeric_limits<int64_t>::max());
      if (!max.ok()) return max.status();
      range.max = *max;
    }
    signature->symbols.emplace(name, range);
  }
  return absl::OkStatus();
}

absl::StatusOr<Dim> ReadDim(const JsonView& view, const Signature& signature) {
  Dim dim;
  if (!view.value().is_string()) {
    if (!view.value().is_number_integer()) {
      return view.Wrong("a size, a symbol or an expression in symbols");
    }
    auto size = view.Int(0, std::numeric_limits<int64_t>::max());
    if (!size.ok()) return size.status();
    dim.size = *size;
    return dim;
  }
  auto text = view.String(kMaxDimText);
  if (!text.ok()) return text.status();
  if (signature.symbols.contains(*text)) {
    dim.kind = Dim::Kind::kSymbol;
  } else if (text->empty() || IsIdentifier(*text)) {
    return view.Wrong("one of the names in symbols");
  } else {
    dim.kind = Dim::Kind::kExpression;
  }
  dim.text = *std::move(text);
  return dim;
}

struct IntegerRange {
  double low, high;
};

// nullopt: a floating type.
std::optional<IntegerRange> RangeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kBool: return IntegerRange{0, 1};
    case DataType::kUint8: return IntegerRange{0, 255};
    case DataType::kUint16: return IntegerRange{0, 65535};
    case DataType::kUint32: return IntegerRange{0, 4294967295.0};
    case DataType::kUint64: return IntegerRange{0, 18446744073709549568.0};
    case DataType::kInt8: return IntegerRange{-128, 127};
    case DataType::kInt16: return IntegerRange{-32768, 32767};
    case DataType::kInt32: return IntegerRange{-2147483648.0, 2147483647.0};
    case DataType::kInt64: return IntegerRange{-9223372036854775808.0, 9223372036854774784.0};
    case DataType::kBytes: return IntegerRange{0, 0};  // an empty string
    default: return std::nullopt;
  }
}

absl::Status ReadPad(const JsonView& view, TensorSpec* tensor) {
  const auto pad = view.Optional("pad");
  if (!pad) return absl::OkStatus();
  auto value = pad->Number();
  if (!value.ok()) return value.status();
  const auto range = RangeOf(tensor->dtype);
  if (range && (*value < range->low || *value > range->high || std::floor(*value) != *value)) {
    return pad->Wrong(absl::StrCat("a value of ", std::string(DataTypeName(tensor->dtype))));
  }
  tensor->pad_value = *value;
  return absl::OkStatus();
}

absl::StatusOr<TensorSpec> ReadTensor(const JsonView& view, const Signature& signature) {
  TensorSpec tensor;
  auto name = view.StringField("name", kMaxTensorName);
  if (!name.ok()) return name.status();
  if (name->empty()) return view.Field("name")->Wrong("a name");
  tensor.name = *std::move(name);
  auto dtype = view.StringField("dtype", 16);
  if (!dtype.ok()) return dtype.status();
  const auto type = ParseDataType(*dtype);
  if (!type) return view.Field("dtype")->Wrong("a data type such as FP32");
  tensor.dtype = *type;
  auto shape = view.Field("shape");
  if (!shape.ok()) return shape.status();
  auto rank = shape->ArraySize(channel::kMaxRank);
  if (!rank.ok()) return rank.status();
  for (size_t d = 0; d < *rank; ++d) {
    auto dim = ReadDim(shape->Element(d), signature);
    if (!dim.ok()) return dim.status();
    tensor.dims.push_back(*std::move(dim));
  }
  if (const auto field = view.Optional("batch_axis")) {
    auto axis = field->Int(-1, static_cast<int64_t>(*rank) - 1);
    if (!axis.ok()) return axis.status();
    tensor.batch_axis = static_cast<int>(*axis);
  }
  return tensor;
}

absl::Status ReadTensors(const JsonView& root, std::string_view field, bool input,
                         Signature* signature) {
  auto list = root.Field(field);
  if (!list.ok()) return list.status();
  auto count = list->ArraySize(channel::kMaxTensors);
  if (!count.ok()) return count.status();
  if (*count == 0 && !input) return list->Wrong("at least one tensor");
  auto& tensors = input ? signature->inputs : signature->outputs;
  std::set<std::string> names;
  for (size_t i = 0; i < *count; ++i) {
    const JsonView view = list->Element(i);
    auto tensor = ReadTensor(view, *signature);
    if (!tensor.ok()) return tensor.status();
    if (!names.insert(tensor->name).second) {
      return view.Field("name")->Wrong("each name only once");
    }
    if (input) RETURN_IF_ERROR(ReadPad(view, &*tensor));
    tensors.push_back(*std::move(tensor));
  }
  return absl::OkStatus();
}

// In a batchable model every tensor has the batch dimension on its batch axis.
absl::Status CheckBatchAxes(const JsonView& root, std::string_view field,
                            const std::vector<TensorSpec>& tensors, const Signature& signature) {
  const JsonView list = *root.Field(field);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& t = tensors[i];
    const JsonView view = list.Element(i);
    if (t.batch_axis < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          view.path(), ".batch_axis is -1 or missing, expected an axis of a batchable model"));
    }
    const Dim& dim = t.dims[static_cast<size_t>(t.batch_axis)];
    const bool fits = signature.fixed_batch > 0
                          ? dim.kind == Dim::Kind::kFixed && dim.size == signature.fixed_batch
                          : dim.kind == Dim::Kind::kSymbol && dim.text == signature.batch_symbol;
    if (!fits) {
      const std::string batch = signature.fixed_batch > 0
                                    ? absl::StrCat(signature.fixed_batch)
                                    : absl::StrCat("\"", signature.batch_symbol, "\"");
      return absl::InvalidArgumentError(
          absl::StrCat(view.path(), ".batch_axis is ", t.batch_axis,
                       ", expected the axis whose size is ", batch));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadBatch(const JsonView& root, Signature* signature) {
  auto batch = root.Field("batch");
  if (!batch.ok()) return batch.status();
  auto batchable = batch->BoolField("batchable");
  if (!batchable.ok()) return batchable.status();
  signature->batchable = *batchable;
  if (const auto reason = batch->Optional("reason")) {
    auto text = reason->String(kMaxReason);
    if (!text.ok()) return text.status();
    signature->unbatched_reason = *std::move(text);
  }
  auto symbol = batch->StringField("symbol", kMaxDimText);
  if (!symbol.ok()) return symbol.status();
  if (!symbol->empty() && !signature->symbols.contains(*symbol)) {
    return batch->Field("symbol")->Wrong("one of the names in symbols");
  }
  signature->batch_symbol = *std::move(symbol);
  auto fixed = batch->IntField("fixed", 0, std::numeric_limits<int64_t>::max());
  if (!fixed.ok()) return fixed.status();
  signature->fixed_batch = *fixed;
  if (!signature->batchable) {
    if (signature->unbatched_reason.empty()) {
      return absl::InvalidArgumentError("batch.reason is missing, expected why not batchable");
    }
    return absl::OkStatus();
  }
  if (signature->batch_symbol.empty() == (signature->fixed_batch == 0)) {
    return batch->Wrong("either a symbol or a fixed size of a batchable model");
  }
  if (signature->inputs.empty()) return root.Field("inputs")->Wrong("inputs to batch");
  RETURN_IF_ERROR(CheckBatchAxes(root, "inputs", signature->inputs, *signature));
  return CheckBatchAxes(root, "outputs", signature->outputs, *signature);
}

}  // namespace

absl::Status ReadSignature(const JsonView& root, Signature* signature) {
  RETURN_IF_ERROR(ReadSymbols(root, signature));
  RETURN_IF_ERROR(ReadTensors(root, "inputs", true, signature));
  RETURN_IF_ERROR(ReadTensors(root, "outputs", false, signature));
  return ReadBatch(root, signature);
}

}  // namespace belfry
