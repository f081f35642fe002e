#include "device/manifest/expression.h"

#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "device/channel/text.h"

namespace belfry {
namespace {

constexpr int kMaxDepth = 32;

// Recursive descent; the first fault ends it.
class Parser {
 public:
  Parser(std::string_view text, const SymbolValues& symbols) : rest_(text), symbols_(symbols) {}

  absl::StatusOr<int64_t> Run() {
    const int64_t value = Sum();
    SkipSpace();
    if (fault_.empty() && !rest_.empty()) {
      fault_ = absl::StrCat("unexpected '", AbslView(rest_.substr(0, 16)), "'");
    }
    if (!fault_.empty()) return absl::InvalidArgumentError(fault_);
    return value;
  }

 private:
  int64_t Sum() {
    if (++depth_ > kMaxDepth) return Fail("nests too deep");
    int64_t value = Product();
    while (fault_.empty()) {
      if (Take("+")) {
        if (__builtin_add_overflow(value, Product(), &value)) return Fail("overflows");
      } else if (Take("-")) {
        if (__builtin_sub_overflow(value, Product(), &value)) return Fail("overflows");
      } else {
        break;
      }
    }
    --depth_;
    return value;
  }

  int64_t Product() {
    int64_t value = Factor();
    while (fault_.empty()) {
      if (Take("//")) {
        value = FloorDivide(value, Factor());
      } else if (Take("*")) {
        if (__builtin_mul_overflow(value, Factor(), &value)) return Fail("overflows");
      } else {
        break;
      }
    }
    return value;
  }

  int64_t Factor() {
    if (Take("(")) {
      const int64_t value = Sum();
      if (fault_.empty() && !Take(")")) return Fail("lacks a ')'");
      return value;
    }
    if (Take("-")) {
      if (++depth_ > kMaxDepth) return Fail("nests too deep");
      int64_t value = 0;
      if (__builtin_sub_overflow(int64_t{0}, Factor(), &value)) return Fail("overflows");
      --depth_;
      return value;
    }
    if (!rest_.empty() && absl::ascii_isdigit(static_cast<unsigned char>(rest_[0]))) {
      return Number();
    }
    return Symbol();
  }

  int64_t Number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return Fail("overflows");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  int64_t Symbol() {
    size_t n = 0;
    while (n < rest_.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(rest_[n])) || rest_[n] == '_')) {
      ++n;
    }
    const std::string_view name = rest_.substr(0, n);
    if (n == 0) return Fail("lacks a number or a symbol");
    const auto it = symbols_.find(name);
    if (it == symbols_.end()) return Fail(absl::StrCat("has no value for '", AbslView(name), "'"));
    rest_.remove_prefix(n);
    return it->second;
  }

  int64_t FloorDivide(int64_t a, int64_t b) {
    if (!fault_.empty()) return 0;
    if (b == 0) return Fail("divides by zero");
    if (a == INT64_MIN && b == -1) return Fail("overflows");
    const int64_t quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
  }

  void SkipSpace() {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
  }

  bool Take(std::string_view token) {
    SkipSpace();
    if (rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    SkipSpace();
    return true;
  }

  int64_t Fail(std::string why) {
    if (fault_.empty()) fault_ = std::move(why);
    return 0;
  }

  std::string_view rest_;
  const SymbolValues& symbols_;
  int depth_ = 0;
  std::string fault_;
};

}  // namespace

absl::StatusOr<int64_t> EvaluateExpression(std::string_view text, const SymbolValues& symbols) {
  auto value = Parser(text, symbols).Run();
  if (value.ok()) return value;
  return absl::InvalidArgumentError(
      absl::StrCat("size '", AbslView(text.substr(0, 256)), "' ", value.status().message()));
}

absl::StatusOr<int64_t> EvaluateDim(const Dim& dim, const SymbolValues& symbols) {
  if (dim.kind == Dim::Kind::kFixed) return dim.size;
  auto value = EvaluateExpression(dim.text, symbols);
  if (value.ok() && *value < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("size '", dim.text, "' is ", *value, ", expected at least 0"));
  }
  return value;
}

}  // namespace belfry
