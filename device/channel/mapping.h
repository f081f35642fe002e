// The channel's shared memory: made by belfryd, mapped by both sides.
#ifndef BELFRY_DEVICE_CHANNEL_MAPPING_H_
#define BELFRY_DEVICE_CHANNEL_MAPPING_H_

#include <array>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "device/channel/layout.h"

namespace belfry::channel {

// Owns a file descriptor (a memfd of sealed size) and its mapping; movable, the
// memory does not move with it. Where the arenas lie is copied out of the
// header when the mapping is made and never read from shared memory again, so
// that the other side cannot move them afterwards.
// Thread-safe as far as it goes: it hands out memory whose use the protocol
// rules.
class Mapping {
 public:
  // Bounds of one arena. The upper one keeps every sum below far from overflow.
  static constexpr uint64_t kMinArenaBytes = 4096;
  static constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 40;

  // belfryd: a new channel, all slots kFree, arenas of at least the given sizes
  // (rounded up to pages). Takes memory only as pages are touched. The
  // descriptor is close-on-exec; the child gets a copy by dup2.
  static absl::StatusOr<Mapping> Create(uint64_t input_bytes, uint64_t output_bytes);

  // The card: maps 'fd' and checks the seals, the file's size and every field
  // of the header. Takes ownership of 'fd', also on failure.
  static absl::StatusOr<Mapping> Open(int fd);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  int fd() const { return fd_; }
  ChannelHeader& header() const { return *header_; }
  // slot < kSlots
  SlotControl& control(uint32_t slot) const { return controls_[slot]; }
  std::span<uint8_t> input(uint32_t slot) const { return inputs_[slot]; }
  std::span<uint8_t> output(uint32_t slot) const { return outputs_[slot]; }

 private:
  Mapping() = default;
  void Release() noexcept;
  // Sets the views from ranges that were checked.
  void SetViews(const std::array<ArenaRange, kSlots>& input,
                const std::array<ArenaRange, kSlots>& output);

  int fd_ = -1;
  uint8_t* base_ = nullptr;
  uint64_t size_ = 0;
  ChannelHeader* header_ = nullptr;
  SlotControl* controls_ = nullptr;
  std::array<std::span<uint8_t>, kSlots> inputs_;
  std::array<std::span<uint8_t>, kSlots> outputs_;
};

}  // namespace belfry::channel

#endif  // BELFRY_DEVICE_CHANNEL_MAPPING_H_
