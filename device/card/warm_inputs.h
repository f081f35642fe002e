// Inputs for a warm-up execution.
#ifndef BELFRY_DEVICE_CARD_WARM_INPUTS_H_
#define BELFRY_DEVICE_CARD_WARM_INPUTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "device/driver.h"
#include "device/manifest/manifest.h"

namespace belfry::card {

// Zeros in the shapes that the values of the symbols give. Owns one private
// mapping whose pages are taken only when touched; move-only.
class WarmInputs {
 public:
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 36;

  static absl::StatusOr<WarmInputs> Make(
      const Signature& signature, const std::vector<std::pair<std::string, int64_t>>& shape);

  WarmInputs(WarmInputs&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)),
        bytes_(other.bytes_),
        tensors_(std::move(other.tensors_)) {}
  WarmInputs& operator=(WarmInputs&&) = delete;
  ~WarmInputs();

  std::span<const belfry_tensor> tensors() const { return tensors_; }

 private:
  WarmInputs() = default;

  void* base_ = nullptr;
  uint64_t bytes_ = 0;
  std::vector<belfry_tensor> tensors_;
};

}  // namespace belfry::card

#endif  // BELFRY_DEVICE_CARD_WARM_INPUTS_H_
