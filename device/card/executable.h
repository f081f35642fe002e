// What a card can run: a compiled artifact or a built-in model.
#ifndef BELFRY_DEVICE_CARD_EXECUTABLE_H_
#define BELFRY_DEVICE_CARD_EXECUTABLE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/card/driver_library.h"
#include "device/card/signature_check.h"
#include "device/channel/layout.h"
#include "device/driver.h"
#include "device/manifest/manifest.h"

namespace belfry::card {

// Check and Submit are called from the execution thread, Warm from the control
// thread, at the same time. Destroyed by the control thread when no call of it
// is under way.
class Executable {
 public:
  virtual ~Executable() = default;

  // Whether it takes these tensors, which keep to the layout already. Compiled
  // code trusts the sizes that it is given; nothing after this looks again.
  virtual absl::Status Check(std::span<const channel::TensorDesc> inputs) const = 0;

  // Starts an execution; call->done tells its end.
  virtual void Submit(belfry_call* call) = 0;

  // Runs once with the given values of the symbols.
  virtual absl::Status Warm(const std::vector<std::pair<std::string, int64_t>>& shape) = 0;

  virtual uint64_t resident_bytes() const = 0;
};

// An artifact on a driver's card. 'card' must outlive it.
class DriverExecutable final : public Executable {
 public:
  // FAILED_PRECONDITION with the driver's words; RESOURCE_EXHAUSTED if the
  // files alone exceed what the card's budget has left.
  static absl::StatusOr<std::unique_ptr<Executable>> Load(OpenCard* card, const std::string& dir);
  ~DriverExecutable() override;

  absl::Status Check(std::span<const channel::TensorDesc> inputs) const override {
    return check_.Check(inputs);
  }
  void Submit(belfry_call* call) override {
    card_->driver().submit(card_->card(), executable_, call);
  }
  absl::Status Warm(const std::vector<std::pair<std::string, int64_t>>& shape) override;
  uint64_t resident_bytes() const override { return resident_bytes_; }

 private:
  DriverExecutable(OpenCard* card, belfry_executable* executable, uint64_t resident_bytes,
                   Signature signature)
      : card_(card),
        executable_(executable),
        resident_bytes_(resident_bytes),
        signature_(std::move(signature)),
        check_(signature_) {}

  OpenCard* const card_;
  belfry_executable* const executable_;
  const uint64_t resident_bytes_;
  const Signature signature_;
  const SignatureCheck check_;
};

}  // namespace belfry::card

#endif  // BELFRY_DEVICE_CARD_EXECUTABLE_H_
