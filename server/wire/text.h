// absl::StrCat and StrAppend that also take std::string_view, which is a type
// of its own beside absl's in some builds of abseil.
#ifndef BELFRY_SERVER_WIRE_TEXT_H_
#define BELFRY_SERVER_WIRE_TEXT_H_

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"

namespace belfry::wire {

template <typename T>
const T& Piece(const T& value) {
  return value;
}
inline absl::string_view Piece(const std::string_view& text) { return AbslView(text); }

template <typename... Args>
std::string Cat(const Args&... args) {
  return absl::StrCat(Piece(args)...);
}

template <typename... Args>
void Append(std::string* out, const Args&... args) {
  absl::StrAppend(out, Piece(args)...);
}

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_TEXT_H_
