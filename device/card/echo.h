// The built-in model: every output is the input of the same place.
#ifndef BELFRY_DEVICE_CARD_ECHO_H_
#define BELFRY_DEVICE_CARD_ECHO_H_

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/card/executable.h"

namespace belfry::card {

// Copies each input, of any type and shape, BYTES included, to an output. Needs
// no driver. Stateless.
class EchoExecutable final : public Executable {
 public:
  absl::Status Check(std::span<const channel::TensorDesc>) const override {
    return absl::OkStatus();
  }
  void Submit(belfry_call* call) override;
  absl::Status Warm(const std::vector<std::pair<std::string, int64_t>>&) override {
    return absl::OkStatus();
  }
  uint64_t resident_bytes() const override { return 0; }
};

}  // namespace belfry::card

#endif  // BELFRY_DEVICE_CARD_ECHO_H_
