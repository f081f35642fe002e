// Gathers everything that is wrong with a request, for one error message.
#ifndef BELFRY_SERVER_WIRE_FAULTS_H_
#define BELFRY_SERVER_WIRE_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/wire/text.h"

namespace belfry::wire {

// A client's string as it may stand in a message: in quotes, everything but
// printable ASCII escaped, cut to 128 bytes of the original.
std::string Quote(std::string_view text);

// "[2,30]"
std::string ShapeText(std::span<const int64_t> shape);

// Not thread-safe. Costs nothing until the first fault.
class FaultList {
 public:
  // The message grows to about 2 KiB; later faults are only counted, so that a
  // request with many faults cannot make the server write a long answer.
  static constexpr size_t kMaxBytes = 2048;

  template <typename... Args>
  void Add(const Args&... args) {
    ++count_;
    if (text_.size() >= kMaxBytes) {
      ++dropped_;
      return;
    }
    AddText(Cat(args...));
  }

  bool empty() const { return count_ == 0; }

  // INVALID_ARGUMENT "<prefix>: <fault>; <fault>; …".
  absl::Status ToStatus(std::string_view prefix) const;

 private:
  void AddText(std::string_view text);

  std::string text_;
  size_t count_ = 0;
  size_t dropped_ = 0;
};

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_FAULTS_H_
