#include "server/base/canonical_json.h"

#include <charconv>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace belfry {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;

absl::Status Append(const json& value, int depth, std::string& out);

absl::Status AppendString(const json& value, std::string& out) {
  try {
    // The library's escapes are Python's: \b \f \n \r \t, \u00e9 in lower case,
    // surrogate pairs, 0x7f escaped.
    out += value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::strict);
  } catch (const json::exception&) {
    return absl::InvalidArgumentError("a text that is not valid UTF-8");
  }
  return absl::OkStatus();
}

absl::Status AppendObject(const json& value, int depth, std::string& out) {
  out += '{';
  bool first = true;
  // std::map orders by bytes of UTF-8, which is Python's order by code points.
  for (const auto& item : value.items()) {
    if (!first) out += ',';
    first = false;
    if (absl::Status s = AppendString(json(item.key()), out); !s.ok()) return s;
    out += ':';
    if (absl::Status s = Append(item.value(), depth + 1, out); !s.ok()) return s;
  }
  out += '}';
  return absl::OkStatus();
}

absl::Status AppendArray(const json& value, int depth, std::string& out) {
  out += '[';
  bool first = true;
  for (const json& item : value) {
    if (!first) out += ',';
    first = false;
    if (absl::Status s = Append(item, depth + 1, out); !s.ok()) return s;
  }
  out += ']';
  return absl::OkStatus();
}

absl::Status Append(const json& value, int depth, std::string& out) {
  if (depth > kMaxDepth) return absl::InvalidArgumentError("nested deeper than 64");
  switch (value.type()) {
    case json::value_t::object: return AppendObject(value, depth, out);
    case json::value_t::array: return AppendArray(value, depth, out);
    case json::value_t::string: return AppendString(value, out);
    case json::value_t::boolean: out += value.get<bool>() ? "true" : "false"; break;
    case json::value_t::number_integer: absl::StrAppend(&out, value.get<int64_t>()); break;
    case json::value_t::number_unsigned: absl::StrAppend(&out, value.get<uint64_t>()); break;
    case json::value_t::number_float: {
      const double number = value.get<double>();
      if (!std::isfinite(number)) return absl::InvalidArgumentError("a number that is not finite");
      out += FloatRepr(number);
      break;
    }
    case json::value_t::null: out += "null"; break;
    default: return absl::InvalidArgumentError("a value that JSON does not have");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> CanonicalJson(const json& value) {
  std::string out;
  if (absl::Status s = Append(value, 0, out); !s.ok()) return s;
  return out;
}

std::string FloatRepr(double value) {
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";
  // "-d.ddde+XX": digits and exponent apart, laid out as Python does.
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), std::fabs(value),
                                 std::chars_format::scientific);
  const std::string text(buffer, end.ptr);
  const size_t e = text.find('e');
  if (e == std::string::npos) return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  std::string digits = text.substr(0, 1);
  if (e > 2) digits += text.substr(2, e - 2);
  const int exponent = std::stoi(text.substr(e + 1));
  const int count = static_cast<int>(digits.size());
  std::string out = value < 0 ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (count > 1) absl::StrAppend(&out, ".", digits.substr(1));
    const int size = std::abs(exponent);
    absl::StrAppend(&out, exponent < 0 ? "e-" : "e+", size < 10 ? "0" : "", size);
  } else if (exponent < 0) {
    absl::StrAppend(&out, "0.", std::string(static_cast<size_t>(-exponent - 1), '0'), digits);
  } else if (count <= exponent + 1) {
    absl::StrAppend(&out, digits, std::string(static_cast<size_t>(exponent + 1 - count), '0'),
                    ".0");
  } else {
    const size_t point = static_cast<size_t>(exponent) + 1;
    absl::StrAppend(&out, digits.substr(0, point), ".", digits.substr(point));
  }
  return out;
}

}  // namespace belfry
