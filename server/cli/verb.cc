#include "server/cli/verb.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/cli/exit_code.h"

namespace belfry::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Compact(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool HoldsObjects(const Json& json) {
  if (json.is_object()) return true;
  return json.is_array() &&
         std::any_of(json.begin(), json.end(), [](const Json& item) { return HoldsObjects(item); });
}

// Objects a key a line; lists of numbers and strings (shapes, tensors) on one.
std::string FormatJson(const Json& json, size_t depth) {
  if (!HoldsObjects(json) || json.empty()) return Compact(json);
  const std::string indent(2 * (depth + 1), ' ');
  std::string out = json.is_object() ? "{" : "[";
  bool first = true;
  for (auto item = json.begin(); item != json.end(); ++item) {
    absl::StrAppend(&out, first ? "\n" : ",\n", indent);
    if (json.is_object()) absl::StrAppend(&out, Compact(item.key()), ": ");
    absl::StrAppend(&out, FormatJson(*item, depth + 1));
    first = false;
  }
  absl::StrAppend(&out, "\n", std::string(2 * depth, ' '), json.is_object() ? "}" : "]");
  return out;
}

}  // namespace

absl::StatusOr<int64_t> ParseVersion(const std::string& text) {
  int64_t version = 0;
  if (text.empty()) return version;
  if (!absl::SimpleAtoi(text, &version) || version < 1) {
    return UsageError(absl::StrCat("version: got '", text, "', expected a number from 1 on"));
  }
  return version;
}

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintJson(const nlohmann::ordered_json& json) { Print(FormatJson(json, 0) + "\n"); }

void Progress(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return LocalError(absl::StrCat("cannot read ", path, ": ",
                                   errno != 0 ? std::strerror(errno) : "it is empty"));
  }
  return std::move(text).str();
}

absl::Status WriteFile(const std::string& path, const std::string& data) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(data.data(), static_cast<std::streamsize>(data.size()));
  file.close();
  if (file) return absl::OkStatus();
  return LocalError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

}  // namespace belfry::cli
