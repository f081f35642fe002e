#include "server/serving/names.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "server/telemetry/log.h"

namespace belfry::serving {

bool IsModelName(std::string_view name) {
  if (name.empty() || name.size() > 128 || !absl::ascii_isalnum(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  });
}

absl::Status CheckModelName(std::string_view name) {
  if (IsModelName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model name '", telemetry::Sanitize(name, 128),
                   "': expected [A-Za-z0-9][A-Za-z0-9._-]{0,127}"));
}

std::optional<int64_t> ParseVersionNumber(std::string_view text) {
  if (text.empty() || text[0] < '1' || text[0] > '9') return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string VersionLabel(std::string_view model, int64_t number) {
  return absl::StrCat(AbslView(model), "/", number);
}

}  // namespace belfry::serving
