// Where the distribution builds abseil for C++14, absl::string_view is a class
// of its own and does not convert from and to std::string_view.
#ifndef BELFRY_DEVICE_CHANNEL_TEXT_H_
#define BELFRY_DEVICE_CHANNEL_TEXT_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace belfry {

inline absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }
template <typename View>
std::string_view Plain(const View& text) {
  return {text.data(), text.size()};
}

}  // namespace belfry

#endif  // BELFRY_DEVICE_CHANNEL_TEXT_H_
