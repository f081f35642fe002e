#include "server/wire/faults.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"

namespace belfry::wire {

namespace {
constexpr size_t kMaxQuoted = 128;
constexpr size_t kMaxFault = 1024;
}  // namespace

std::string Quote(std::string_view text) {
  const bool cut = text.size() > kMaxQuoted;
  return Cat("'", absl::CHexEscape(AbslView(text.substr(0, kMaxQuoted))), cut ? "…'" : "'");
}

std::string ShapeText(std::span<const int64_t> shape) {
  return Cat("[", absl::StrJoin(shape, ","), "]");
}

void FaultList::AddText(std::string_view text) {
  if (!text_.empty()) text_.append("; ");
  text_.append(text.substr(0, kMaxFault));
  if (text.size() > kMaxFault) text_.append("…");
}

absl::Status FaultList::ToStatus(std::string_view prefix) const {
  std::string message = prefix.empty() ? text_ : Cat(prefix, ": ", text_);
  if (dropped_ > 0) Append(&message, "; and ", dropped_, " more");
  return absl::InvalidArgumentError(message);
}

}  // namespace belfry::wire
