#include "device/card/signature_check.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "device/manifest/expression.h"

namespace belfry::card {
namespace {

constexpr int64_t kUnset = -1;
constexpr size_t kMaxSymbols = 64;  // the manifest's limit

}  // namespace

SignatureCheck::SignatureCheck(const Signature& signature) {
  for (const auto& [name, range] : signature.symbols) symbols_.push_back({name, range});
  for (const TensorSpec& spec : signature.inputs) {
    TensorRule rule{spec.name, spec.dtype, {}};
    for (const Dim& dim : spec.dims) {
      SizeRule size;
      if (dim.kind == Dim::Kind::kFixed) {
        size.fixed = dim.size;
      } else if (dim.kind == Dim::Kind::kSymbol) {
        const auto it = std::find_if(symbols_.begin(), symbols_.end(),
                                     [&](const Symbol& s) { return s.name == dim.text; });
        size.symbol = static_cast<int>(it - symbols_.begin());
      } else {
        size.expression = dim.text;
        has_expressions_ = true;
      }
      rule.sizes.push_back(std::move(size));
    }
    tensors_.push_back(std::move(rule));
  }
}

absl::Status SignatureCheck::Check(std::span<const channel::TensorDesc> inputs) const {
  if (inputs.size() != tensors_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(inputs.size(), " inputs, expected ", tensors_.size()));
  }
  std::array<int64_t, kMaxSymbols> storage;
  const std::span<int64_t> values(storage.data(), std::min(symbols_.size(), kMaxSymbols));
  std::fill(values.begin(), values.end(), kUnset);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (auto s = CheckTensor(tensors_[i], inputs[i], values); !s.ok()) return s;
  }
  return has_expressions_ ? CheckExpressions(inputs, values) : absl::OkStatus();
}

absl::Status SignatureCheck::CheckTensor(const TensorRule& rule, const channel::TensorDesc& tensor,
                                         std::span<int64_t> values) const {
  if (static_cast<DataType>(tensor.dtype) != rule.dtype || tensor.rank != rule.sizes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("input '", rule.name, "': ",
                     AbslView(DataTypeName(static_cast<DataType>(tensor.dtype))), " of rank ",
                     tensor.rank, ", expected ", AbslView(DataTypeName(rule.dtype)), " of rank ",
                     rule.sizes.size()));
  }
  for (size_t d = 0; d < rule.sizes.size(); ++d) {
    const SizeRule& size = rule.sizes[d];
    const int64_t got = tensor.dims[d];
    if (size.symbol >= 0) {
      const Symbol& symbol = symbols_[static_cast<size_t>(size.symbol)];
      int64_t& value = values[static_cast<size_t>(size.symbol)];
      if (got < symbol.range.min || got > symbol.range.max || (value != kUnset && value != got)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "input '", rule.name, "': size ", got, " on axis ", d, ", expected ", symbol.name,
            value != kUnset ? absl::StrCat(" = ", value) : "", " from ", symbol.range.min, " to ",
            symbol.range.max));
      }
      value = got;
    } else if (size.expression.empty() && got != size.fixed) {
      return absl::InvalidArgumentError(absl::StrCat("input '", rule.name, "': size ", got,
                                                     " on axis ", d, ", expected ", size.fixed));
    }
  }
  return absl::OkStatus();
}

absl::Status SignatureCheck::CheckExpressions(std::span<const channel::TensorDesc> inputs,
                                              std::span<const int64_t> values) const {
  SymbolValues known;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != kUnset) known.emplace(symbols_[i].name, values[i]);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t d = 0; d < tensors_[i].sizes.size(); ++d) {
      const std::string& expression = tensors_[i].sizes[d].expression;
      if (expression.empty()) continue;
      auto expected = EvaluateExpression(expression, known);
      if (!expected.ok()) return expected.status();
      if (inputs[i].dims[d] != *expected) {
        return absl::InvalidArgumentError(
            absl::StrCat("input '", tensors_[i].name, "': size ", inputs[i].dims[d], " on axis ",
                         d, ", expected ", expression, " = ", *expected));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace belfry::card
