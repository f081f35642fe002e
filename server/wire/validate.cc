#include "server/wire/validate.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "device/channel/layout.h"
#include "server/base/checked.h"
#include "server/wire/faults.h"
#include "server/wire/text.h"

namespace belfry::wire {

namespace {

std::string DimText(const Dim& dim) {
  return dim.kind == Dim::Kind::kFixed ? Cat(dim.size) : dim.text;
}

// "FP32 [batch,30]"
std::string SpecText(const TensorSpec& spec) {
  std::string text = Cat(DataTypeName(spec.dtype), " [");
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    Append(&text, i > 0 ? "," : "", DimText(spec.dims[i]));
  }
  return text + "]";
}

// "FP32 [2,30]", without a datatype that is unknown and a shape that the decoder
// refused: both are told in its words.
std::string TensorText(const RequestTensor& tensor) {
  if (tensor.dtype == DataType::kInvalid) {
    return tensor.shape_refused ? "" : ShapeText(tensor.shape);
  }
  if (tensor.shape_refused) return std::string(DataTypeName(tensor.dtype));
  return Cat(DataTypeName(tensor.dtype), " ", ShapeText(tensor.shape));
}

std::string ListSpecs(const std::vector<TensorSpec>& specs) {
  std::string text;
  for (const TensorSpec& s : specs) {
    Append(&text, text.empty() ? "" : ", ", "'", s.name, "' ", SpecText(s));
  }
  return text;
}

std::string ListNames(const std::vector<TensorSpec>& specs) {
  std::string text;
  for (const TensorSpec& s : specs) {
    Append(&text, text.empty() ? "" : ", ", "'", s.name, "'");
  }
  return text;
}

int FindSpec(const std::vector<TensorSpec>& specs, std::string_view name) {
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

// The size of a tensor of fixed-size elements must be that of its shape. BYTES
// elements were walked by the decoder.
void CheckSize(const RequestTensor& tensor, FaultList* faults) {
  if (tensor.payload_refused && !faults->empty()) return;
  const size_t width = DataTypeSize(tensor.dtype);
  if (width == 0) return;
  const auto elements = CheckedElementCount(tensor.shape);
  const auto bytes = elements ? CheckedMul(*elements, static_cast<int64_t>(width)) : std::nullopt;
  if (bytes && static_cast<uint64_t>(*bytes) == tensor.payload.size) return;
  faults->Add("input ", Quote(tensor.name), ": got ", tensor.payload.size, " bytes, expected ",
              bytes ? Cat(*bytes) : "a size that fits 63 bits", " for ",
              TensorText(tensor));
}

void CheckOutputs(const Signature& signature, const Request& request, FaultList* faults) {
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const RequestedOutput& wanted = request.outputs[i];
    const int at = FindSpec(signature.outputs, wanted.name);
    if (at < 0) {
      faults->Add("unknown output ", Quote(wanted.name), ", expected one of ",
                  ListNames(signature.outputs));
      continue;
    }
    for (size_t j = 0; j < i; ++j) {
      if (request.outputs[j].name != wanted.name) continue;
      faults->Add("output ", Quote(wanted.name), " is asked for twice");
      break;
    }
    if (wanted.classification == 0) continue;
    const TensorSpec& spec = signature.outputs[at];
    const bool any = signature.any_tensor && !request.inputs.empty();
    if (any && request.inputs[0].dtype == DataType::kInvalid) continue;  // refused already
    const DataType dtype = any ? request.inputs[0].dtype : spec.dtype;
    const size_t rank = any ? request.inputs[0].shape.size() : spec.dims.size();
    if (dtype == DataType::kBytes || rank == 0) {
      faults->Add("output ", Quote(wanted.name), ": classification of a ", DataTypeName(dtype),
                  " tensor of rank ", rank, ", expected numbers and a rank of at least 1");
    }
  }
}

// One request against the signature of an ordinary model.
class Checker {
 public:
  Checker(const Signature& signature, Request* request, FaultList* faults)
      : signature_(signature), request_(request), faults_(faults) {
    symbols_.resize(signature.symbols.size());
  }

  Binding Run() {
    MatchInputs();
    if (faults_->empty()) SortInputs();
    CheckSymbols();
    CheckRows();
    CheckOutputs(signature_, *request_, faults_);
    // Last: it is long, and help more than a fault.
    if (wrong_names_) faults_->Add("expected inputs: ", ListSpecs(signature_.inputs));
    return MakeBinding();
  }

 private:
  struct Symbol {
    std::optional<int64_t> value;
    const TensorSpec* from = nullptr;  // the input that told it
  };

  void MatchInputs() {
    position_.assign(signature_.inputs.size(), -1);
    for (size_t i = 0; i < request_->inputs.size(); ++i) {
      const RequestTensor& tensor = request_->inputs[i];
      const int at = FindSpec(signature_.inputs, tensor.name);
      if (at < 0) {
        faults_->Add("unexpected input ", Quote(tensor.name));
        wrong_names_ = true;
      } else if (position_[at] >= 0) {
        faults_->Add("input ", Quote(tensor.name), " is given twice");
      } else {
        position_[at] = static_cast<int>(i);
        CheckTensor(signature_.inputs[at], tensor);
      }
    }
    for (size_t i = 0; i < position_.size(); ++i) {
      if (position_[i] >= 0) continue;
      faults_->Add("input '", signature_.inputs[i].name, "' is missing");
      wrong_names_ = true;
    }
  }

  // Dtype, rank and fixed dimensions in one fault; then what the symbols say.
  void CheckTensor(const TensorSpec& spec, const RequestTensor& tensor) {
    const bool shape_ok = FitsShape(spec, tensor);
    if (tensor.dtype != spec.dtype || !shape_ok) {
      // What the decoder told is not told again, only what was expected.
      const bool unknown = tensor.dtype == DataType::kInvalid;
      const bool told = unknown ? shape_ok : tensor.shape_refused && tensor.dtype == spec.dtype;
      const std::string got = told ? "" : TensorText(tensor);
      faults_->Add("input '", spec.name, "': ", got.empty() ? "" : Cat("got ", got, ", "),
                   "expected ", SpecText(spec));
      if (!unknown || !shape_ok) return;
    }
    for (size_t d = 0; d < spec.dims.size(); ++d) BindDim(spec, d, tensor);
    CheckSize(tensor, faults_);
  }

  bool FitsShape(const TensorSpec& spec, const RequestTensor& tensor) const {
    if (tensor.shape_refused || tensor.shape.size() != spec.dims.size()) return false;
    for (size_t d = 0; d < spec.dims.size(); ++d) {
      if (tensor.shape[d] < 0) return false;
      if (spec.dims[d].kind != Dim::Kind::kFixed || IsFixedBatch(spec, d)) continue;
      if (tensor.shape[d] != spec.dims[d].size) return false;
    }
    return true;
  }

  // A batch axis of fixed size takes any number of rows: requests are gathered,
  // split and padded to it.
  bool IsFixedBatch(const TensorSpec& spec, size_t d) const {
    return signature_.batchable && signature_.fixed_batch > 0 &&
           spec.batch_axis == static_cast<int>(d);
  }

  void BindDim(const TensorSpec& spec, size_t d, const RequestTensor& tensor) {
    const Dim& dim = spec.dims[d];
    const int64_t value = tensor.shape[d];
    if (IsFixedBatch(spec, d)) {
      if (!rows_) {
        rows_ = value;
        rows_from_ = &spec;
      } else if (*rows_ != value) {
        Disagree(spec, tensor, "the batch", *rows_, *rows_from_);
      }
      return;
    }
    if (dim.kind == Dim::Kind::kExpression) joinable_ = false;
    if (dim.kind != Dim::Kind::kSymbol) return;
    Symbol* symbol = FindSymbol(dim.text);
    if (symbol == nullptr) {  // no range is known: any size
      joinable_ = false;
    } else if (!symbol->value) {
      symbol->value = value;
      symbol->from = &spec;
    } else if (*symbol->value != value) {
      Disagree(spec, tensor, dim.text, *symbol->value, *symbol->from);
    }
    if (signature_.batchable && dim.text == signature_.batch_symbol &&
        spec.batch_axis != static_cast<int>(d)) {
      joinable_ = false;  // rows lie along two axes
    }
  }

  void Disagree(const TensorSpec& spec, const RequestTensor& tensor, std::string_view what,
                int64_t value, const TensorSpec& other) {
    faults_->Add("input '", spec.name, "': got ", TensorText(tensor), ", expected ",
                 SpecText(spec), " with ", what, " = ", value, " as in input '", other.name, "'");
  }

  Symbol* FindSymbol(std::string_view name) {
    size_t i = 0;
    for (const auto& entry : signature_.symbols) {
      if (entry.first == name) return &symbols_[i];
      ++i;
    }
    return nullptr;
  }

  void CheckSymbols() {
    size_t i = 0;
    for (const auto& [name, range] : signature_.symbols) {
      const Symbol& symbol = symbols_[i++];
      if (!symbol.value) continue;
      const bool batch = name == signature_.batch_symbol;
      if (batch && signature_.batchable) {
        // More rows than an execution takes are split, fewer are padded.
        rows_ = *symbol.value;
        continue;
      }
      const int64_t min = batch ? std::max<int64_t>(1, range.min) : range.min;
      if (*symbol.value >= min && *symbol.value <= range.max) continue;
      faults_->Add("input '", symbol.from->name, "': got ", name, " = ", *symbol.value,
                   ", expected ",
                   range.max == INT64_MAX ? Cat("at least ", min)
                                          : Cat(min, " to ", range.max),
                   batch ? " rows (the model is not batched, so a request is not split)" : "");
    }
  }

  // Rows cost work each, so a client must send at least a byte for each: rows
  // of no elements at all could be any number.
  void CheckRows() {
    if (!signature_.batchable || !rows_) return;
    if (*rows_ < 1) {
      faults_->Add("got a batch of 0 rows, expected at least 1");
    } else if (*rows_ > 1 && std::all_of(request_->inputs.begin(), request_->inputs.end(),
                                         [](const auto& t) {
                                           return t.payload.size == 0 && !t.payload_refused;
                                         })) {
      faults_->Add("got a batch of ", *rows_, " rows that hold no data, expected at most 1");
    }
  }

  // Swaps the inputs into signature order; position_ says where each lies.
  void SortInputs() {
    auto& inputs = request_->inputs;
    for (size_t i = 0; i < position_.size(); ++i) {
      const size_t from = static_cast<size_t>(position_[i]);
      if (from == i) continue;
      std::swap(inputs[i], inputs[from]);
      // What lay at i lies at 'from' now.
      *std::find(position_.begin() + static_cast<ptrdiff_t>(i), position_.end(),
                 static_cast<int>(i)) = static_cast<int>(from);
      position_[i] = static_cast<int>(i);
    }
  }

  Binding MakeBinding() const {
    Binding binding;
    if (signature_.batchable) binding.rows = rows_.value_or(1);
    size_t i = 0;
    for (const auto& entry : signature_.symbols) {
      const Symbol& symbol = symbols_[i++];
      if (entry.first == signature_.batch_symbol) continue;
      binding.symbols.push_back(symbol.value.value_or(0));
      Append(&binding.shape_key, binding.shape_key.empty() ? "" : ",",
                      symbol.value.value_or(0));
    }
    binding.joinable = joinable_ && signature_.batchable && EveryInputHasRows();
    return binding;
  }

  // BYTES elements have no fixed place, so rows of them are not joined.
  bool EveryInputHasRows() const {
    return std::all_of(
        signature_.inputs.begin(), signature_.inputs.end(),
        [](const TensorSpec& s) { return s.batch_axis >= 0 && s.dtype != DataType::kBytes; });
  }

  const Signature& signature_;
  Request* const request_;
  FaultList* const faults_;
  absl::InlinedVector<int, 8> position_;   // of each spec among the request's inputs
  absl::InlinedVector<Symbol, 4> symbols_;  // in map order
  std::optional<int64_t> rows_;
  const TensorSpec* rows_from_ = nullptr;
  bool joinable_ = true;
  bool wrong_names_ = false;
};

// The echo model: one tensor of any type and shape.
Binding CheckAnyTensor(const Signature& signature, const Request& request, FaultList* faults) {
  Binding binding;
  const std::string_view name =
      signature.inputs.empty() ? std::string_view("input") : signature.inputs[0].name;
  if (request.inputs.size() != 1 || request.inputs[0].name != name) {
    std::string got;
    for (const RequestTensor& t : request.inputs) {
      if (got.size() > FaultList::kMaxBytes) break;
      Append(&got, got.empty() ? "" : ", ", Quote(t.name));
    }
    faults->Add("got inputs ", got.empty() ? "none" : got, ", expected exactly one, '", name, "'");
    return binding;
  }
  const RequestTensor& tensor = request.inputs[0];
  const bool unreadable = tensor.dtype == DataType::kInvalid || tensor.shape_refused;
  if (unreadable && !faults->empty()) return binding;  // the decoder said so
  if (unreadable || !CheckedElementCount(tensor.shape) ||
      tensor.shape.size() > channel::kMaxRank) {
    faults->Add("input ", Quote(tensor.name), ": got ", TensorText(tensor),
                ", expected a known datatype, sizes of at least 0 and at most ",
                channel::kMaxRank, " dimensions");
    return binding;
  }
  if (*CheckedElementCount(tensor.shape) == 0) {
    faults->Add("input ", Quote(tensor.name), ": got ", TensorText(tensor),
                ", expected at least one element");
    return binding;
  }
  CheckSize(tensor, faults);
  binding.joinable = tensor.dtype != DataType::kBytes && !tensor.shape.empty();
  binding.shape_key = Cat(DataTypeName(tensor.dtype), ":", tensor.shape.size());
  for (size_t d = 1; d < tensor.shape.size(); ++d) {
    Append(&binding.shape_key, ",", tensor.shape[d]);
  }
  if (binding.joinable) binding.rows = tensor.shape[0];
  return binding;
}

Binding CheckEcho(const Signature& signature, const Request& request, FaultList* faults) {
  Binding binding = CheckAnyTensor(signature, request, faults);
  CheckOutputs(signature, request, faults);
  return binding;
}

}  // namespace

absl::StatusOr<Binding> Validate(std::string_view model, std::string_view version,
                                 const Signature& signature, Request* request) {
  // A copy: a request that is validated again, for another version, is refused again.
  FaultList faults = request->faults;
  Binding binding = signature.any_tensor ? CheckEcho(signature, *request, &faults)
                                         : Checker(signature, request, &faults).Run();
  if (!faults.empty()) {
    return faults.ToStatus(Cat("model '", model, "' version ", version));
  }
  return binding;
}

absl::Status RefuseUnresolved(const Request& request, const absl::Status& why) {
  if (request.faults.empty()) return why;
  FaultList faults = request.faults;
  // An empty name is a fault of its own; that no model has it is no news.
  if (!request.model_name.empty()) faults.Add(why.message());
  return faults.ToStatus(Cat("model ", Quote(request.model_name)));
}

}  // namespace belfry::wire
