// Between std::string_view and absl::string_view. They are one type where
// abseil is built for C++17; where a distribution builds it for C++14 (Debian
// 12) they are two classes that do not convert into each other.
#ifndef BELFRY_DEVICE_CHANNEL_TEXT_H_
#define BELFRY_DEVICE_CHANNEL_TEXT_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace belfry {

inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

// 'text' is any absl view or string, a Status's message for example.
template <typename View>
std::string_view StdView(const View& text) {
  return {text.data(), text.size()};
}

}  // namespace belfry

#endif  // BELFRY_DEVICE_CHANNEL_TEXT_H_
