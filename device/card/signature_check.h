// Whether the tensors of a batch are those that a compiled model was made for.
#ifndef BELFRY_DEVICE_CARD_SIGNATURE_CHECK_H_
#define BELFRY_DEVICE_CARD_SIGNATURE_CHECK_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "device/channel/layout.h"
#include "device/manifest/manifest.h"

namespace belfry::card {

// Compiled from a signature once, so that a check of a good batch takes no
// memory (unless a size is an expression). Thread-safe.
class SignatureCheck {
 public:
  explicit SignatureCheck(const Signature& signature);

  // Count, types, ranks, fixed sizes; symbols within their ranges and the same
  // in all tensors; expressions. INVALID_ARGUMENT names the tensor, what came
  // and what was expected.
  absl::Status Check(std::span<const channel::TensorDesc> inputs) const;

 private:
  struct SizeRule {
    int symbol = -1;          // index in symbols_
    int64_t fixed = 0;        // where symbol is -1 and there is no expression
    std::string expression;
  };
  struct TensorRule {
    std::string name;
    DataType dtype;
    std::vector<SizeRule> sizes;
  };
  struct Symbol {
    std::string name;
    SymbolRange range;
  };

  absl::Status CheckTensor(const TensorRule& rule, const channel::TensorDesc& tensor,
                           std::span<int64_t> values) const;
  absl::Status CheckExpressions(std::span<const channel::TensorDesc> inputs,
                                std::span<const int64_t> values) const;

  std::vector<Symbol> symbols_;
  std::vector<TensorRule> tensors_;
  bool has_expressions_ = false;
};

}  // namespace belfry::card

#endif  // BELFRY_DEVICE_CARD_SIGNATURE_CHECK_H_
