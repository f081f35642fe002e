#include "server/cli/verb.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/cli/exit_code.h"

namespace belfry::cli {

absl::StatusOr<int64_t> ParseVersion(const std::string& text) {
  int64_t version = 0;
  if (text.empty()) return version;
  if (!absl::SimpleAtoi(text, &version) || version < 1) {
    return UsageError(absl::StrCat("version: got '", text, "', expected a number from 1 on"));
  }
  return version;
}

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintJson(const nlohmann::ordered_json& json) {
  Print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

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
