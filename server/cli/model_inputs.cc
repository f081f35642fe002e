#include "server/cli/model_inputs.h"

#include <algorithm>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "device/channel/text.h"
#include "server/base/checked.h"
#include "server/cli/exit_code.h"
#include "server/cli/npy.h"
#include "server/cli/tensor_json.h"
#include "server/cli/verb.h"

namespace belfry::cli {
namespace {

constexpr int64_t kDefaultSize = 16;
constexpr int64_t kMaxElements = 1 << 28;
constexpr char kShape[] = "belfry.shape.";
constexpr char kSymbol[] = "belfry.symbol.";

// "FP32 [7,batch,220]"; anything else means any dtype and shape.
InputSpec ParseSpec(const std::string& name, const std::string& text) {
  InputSpec spec;
  spec.name = name;
  const size_t open = text.find(" [");
  if (open == std::string::npos || !text.ends_with("]")) return spec;
  spec.dtype = ParseDataType(text.substr(0, open)).value_or(DataType::kInvalid);
  const std::string dims = text.substr(open + 2, text.size() - open - 3);
  if (!dims.empty()) spec.dims = absl::StrSplit(dims, ',');
  return spec;
}

// "1..512", "1.."
std::pair<int64_t, int64_t> ParseRange(const std::string& text) {
  std::pair<int64_t, int64_t> range = {1, INT64_MAX};
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return range;
  if (!absl::SimpleAtoi(text.substr(0, dots), &range.first)) range.first = 1;
  if (!absl::SimpleAtoi(text.substr(dots + 2), &range.second)) range.second = INT64_MAX;
  return range;
}

std::string NamesOf(const ModelInputs& model) {
  return absl::StrJoin(model.inputs, ", ", [](std::string* out, const InputSpec& spec) {
    absl::StrAppend(out, spec.name);
    if (spec.dtype != DataType::kInvalid) {
      absl::StrAppend(out, " ", AbslView(DataTypeName(spec.dtype)), " [",
                      absl::StrJoin(spec.dims, ","), "]");
    }
  });
}

struct InputFlag {
  std::string name;
  DataType dtype = DataType::kInvalid;  // kInvalid: not said
  std::string value;
};

// Splits NAME[:DATATYPE]=VALUE; a text that begins like a value has no name.
absl::StatusOr<InputFlag> SplitFlag(const std::string& text) {
  InputFlag flag;
  constexpr std::string_view kBeginsAValue = "@[{\"-0123456789";
  const size_t equals = text.find('=');
  if (equals == std::string::npos || kBeginsAValue.find(text[0]) != std::string_view::npos) {
    flag.value = text;
    return flag;
  }
  flag.name = text.substr(0, equals);
  flag.value = text.substr(equals + 1);
  const size_t colon = flag.name.rfind(':');
  if (colon == std::string::npos) return flag;
  const auto dtype = ParseDataType(flag.name.substr(colon + 1));
  if (!dtype || *dtype == DataType::kInvalid) {
    return UsageError(absl::StrCat("--input: '", flag.name.substr(colon + 1),
                                   "' is no datatype (FP32, INT64, BYTES, ...)"));
  }
  flag.dtype = *dtype;
  flag.name.resize(colon);
  return flag;
}

absl::StatusOr<const InputSpec*> FindSpec(const InputFlag& flag, const ModelInputs& model) {
  if (flag.name.empty()) {
    if (model.inputs.size() == 1) return &model.inputs[0];
    return UsageError(absl::StrCat("--input needs a name (NAME=VALUE): the model takes ",
                                   NamesOf(model)));
  }
  for (const InputSpec& spec : model.inputs) {
    if (spec.name == flag.name) return &spec;
  }
  return UsageError(
      absl::StrCat("--input: there is no '", flag.name, "', the model takes ", NamesOf(model)));
}

absl::StatusOr<Tensor> ReadValue(const std::string& value, DataType dtype) {
  if (!value.starts_with("@")) return TensorFromJson(value, dtype);
  const std::string path = value.substr(1);
  const auto file = ReadFile(path);
  if (!file.ok()) return file.status();
  return path.ends_with(".npy") ? ParseNpy(*file) : TensorFromJson(*file, dtype);
}

// The number that a dimension stands for.
absl::StatusOr<int64_t> SizeOf(const std::string& dim, const ModelInputs& model, int64_t rows,
                               const std::map<std::string, int64_t>& sizes) {
  int64_t size = 0;
  if (absl::SimpleAtoi(dim, &size)) return size;
  if (const auto at = sizes.find(dim); at != sizes.end()) return at->second;
  if (dim == model.batch_symbol) return rows;
  const auto range = model.symbols.find(dim);
  if (range == model.symbols.end()) {
    return UsageError(absl::StrCat("the size '", dim, "' is an expression; give the input itself"));
  }
  return std::clamp(kDefaultSize, range->second.first, range->second.second);
}

Element MakeElement(DataType dtype, std::mt19937_64* random) {
  switch (dtype) {
    case DataType::kBool:
      return true;
    case DataType::kBytes:
      return std::string("belfry");
    case DataType::kFp16:
    case DataType::kBf16:
    case DataType::kFp32:
    case DataType::kFp64:
      return std::uniform_real_distribution<double>(-1, 1)(*random);
    default:
      return int64_t{1};
  }
}

absl::StatusOr<Tensor> MakeInput(const InputSpec& spec, const ModelInputs& model, int64_t rows,
                                 const std::map<std::string, int64_t>& sizes,
                                 std::mt19937_64* random) {
  Tensor out;
  out.dtype = spec.dtype;
  if (spec.dtype == DataType::kInvalid) {
    out.dtype = DataType::kFp32;
    out.shape = {rows, kDefaultSize};
  }
  for (const std::string& dim : spec.dims) {
    const auto size = SizeOf(dim, model, rows, sizes);
    if (!size.ok()) return size.status();
    out.shape.push_back(*size);
  }
  const auto count = CheckedElementCount(out.shape);
  if (!count || *count > kMaxElements) {
    return UsageError(absl::StrCat(Describe(out), " is too large to make up"));
  }
  for (int64_t i = 0; i < *count; ++i) {
    auto status = AppendElement(MakeElement(out.dtype, random), out.dtype, &out.data);
    if (!status.ok()) return status;
  }
  return out;
}

}  // namespace

absl::StatusOr<ModelInputs> InputsOf(const inference::ModelConfig& config) {
  ModelInputs out;
  for (const auto& input : config.input()) {
    const auto at = config.parameters().find(kShape + input.name());
    if (at == config.parameters().end()) {
      return absl::UnimplementedError("the server does not tell the shapes of the model's inputs "
                                      "as belfryd does");
    }
    out.inputs.push_back(ParseSpec(input.name(), at->second.string_value()));
  }
  for (const auto& [key, value] : config.parameters()) {
    if (key.starts_with(kSymbol)) {
      out.symbols[key.substr(sizeof kSymbol - 1)] = ParseRange(value.string_value());
    }
    if (key == "belfry.batch_symbol") out.batch_symbol = value.string_value();
  }
  return out;
}

absl::StatusOr<NamedTensor> ReadInput(const std::string& text, const ModelInputs& model) {
  const auto flag = SplitFlag(text);
  if (!flag.ok()) return flag.status();
  const auto spec = FindSpec(*flag, model);
  if (!spec.ok()) return spec.status();
  const DataType wanted = flag->dtype != DataType::kInvalid ? flag->dtype : (*spec)->dtype;
  auto tensor = ReadValue(flag->value, wanted);
  if (tensor.ok() && wanted != DataType::kInvalid) tensor = Convert(*tensor, wanted);
  if (tensor.ok()) return NamedTensor((*spec)->name, *std::move(tensor));
  if (ExitCodeOf(tensor.status()) == kLocal) return tensor.status();
  return UsageError(absl::StrCat("--input ", (*spec)->name, ": ", tensor.status().message()));
}

absl::StatusOr<std::vector<NamedTensor>> MakeInputs(const ModelInputs& model, int64_t rows,
                                                    const std::map<std::string, int64_t>& sizes) {
  std::mt19937_64 random(1);
  std::vector<NamedTensor> out;
  for (const InputSpec& spec : model.inputs) {
    auto tensor = MakeInput(spec, model, rows, sizes, &random);
    if (!tensor.ok()) return tensor.status();
    out.emplace_back(spec.name, *std::move(tensor));
  }
  return out;
}

inference::ModelInferRequest MakeRequest(const std::string& model, const std::string& version,
                                         const std::vector<NamedTensor>& inputs) {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  request.set_model_version(version);
  for (const auto& [name, tensor] : inputs) {
    auto* input = request.add_inputs();
    input->set_name(name);
    input->set_datatype(std::string(DataTypeName(tensor.dtype)));
    for (int64_t dim : tensor.shape) input->add_shape(dim);
    request.add_raw_input_contents(tensor.data);
  }
  return request;
}

}  // namespace belfry::cli
