#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "device/channel/text.h"
#include "server/cards/pool.h"
#include "server/telemetry/log.h"

namespace belfry::cards {
namespace {

// The name becomes part of a file's name (libbelfry_driver_NAME.so), so it must
// not be able to leave its folder.
bool IsDriverName(std::string_view name) {
  if (name.empty() || name.size() > 64 || !absl::ascii_isalnum(name[0])) return false;
  for (const char c : name) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_') return false;
  }
  return true;
}

absl::Status Bad(std::string_view element, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("cards: '", telemetry::Sanitize(element, 128),
                                                 "': ", AbslView(why),
                                                 "; expected DRIVER:COUNT, for example cpu:2"));
}

}  // namespace

absl::StatusOr<std::vector<CardGroup>> ParseCards(std::string_view text) {
  std::vector<CardGroup> groups;
  int total = 0;
  for (const absl::string_view piece : absl::StrSplit(AbslView(text), ',')) {
    const std::string_view element = StdView(absl::StripAsciiWhitespace(piece));
    const size_t colon = element.find(':');
    const std::string_view driver = element.substr(0, colon);
    if (!IsDriverName(driver)) {
      return Bad(element, "the driver's name is missing or malformed");
    }
    int count = 1;
    if (colon != std::string_view::npos) {
      const std::string_view digits = element.substr(colon + 1);
      // SimpleAtoi also takes signs and blanks, which a count has no use for.
      for (const char c : digits) {
        if (!absl::ascii_isdigit(c)) return Bad(element, "the count is not a number");
      }
      if (!absl::SimpleAtoi(AbslView(digits), &count)) {
        return Bad(element, "the count is not a number");
      }
    }
    if (count < 1 || count > kMaxCards) {
      return Bad(element, absl::StrCat("the count is not in 1 .. ", kMaxCards));
    }
    for (const CardGroup& other : groups) {
      if (other.driver == driver) return Bad(element, "the driver is named twice");
    }
    total += count;
    if (total > kMaxCards) {
      return Bad(element, absl::StrCat("more than ", kMaxCards, " cards in all"));
    }
    groups.push_back({std::string(driver), count});
  }
  return groups;
}

}  // namespace belfry::cards
