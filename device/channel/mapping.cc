#include "device/channel/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace belfry::channel {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

uint64_t PageBytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

constexpr uint64_t kControlsOffset =
    (sizeof(ChannelHeader) + alignof(SlotControl) - 1) / alignof(SlotControl) *
    alignof(SlotControl);
constexpr uint64_t kControlsEnd = kControlsOffset + kSlots * sizeof(SlotControl);

absl::Status CheckArena(const char* name, uint32_t slot, const ArenaRange& range,
                        uint64_t total) {
  const uint64_t page = PageBytes();
  if (range.offset % page != 0 || range.offset < kControlsEnd || range.offset > total ||
      range.bytes < Mapping::kMinArenaBytes || range.bytes > Mapping::kMaxArenaBytes ||
      range.bytes > total - range.offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("channel: ", name, " arena of slot ", slot, " is [", range.offset, ", +",
                     range.bytes, "), expected a page-aligned range of at least ",
                     Mapping::kMinArenaBytes, " bytes within [", kControlsEnd, ", ", total, ")"));
  }
  return absl::OkStatus();
}

bool Overlap(const ArenaRange& a, const ArenaRange& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// What Open() needs of the header, copied out of shared memory once.
struct HeaderCopy {
  uint64_t magic;
  uint32_t version;
  uint32_t slots;
  uint64_t total_bytes;
  std::array<ArenaRange, kSlots> input;
  std::array<ArenaRange, kSlots> output;
};

HeaderCopy CopyHeader(const ChannelHeader& header) {
  HeaderCopy copy;
  copy.magic = header.magic;
  copy.version = header.version;
  copy.slots = header.slots;
  copy.total_bytes = header.total_bytes;
  for (uint32_t i = 0; i < kSlots; ++i) {
    copy.input[i] = header.input[i];
    copy.output[i] = header.output[i];
  }
  // Whatever the other side writes from here on, the copy is what is checked.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return copy;
}

absl::Status CheckHeader(const HeaderCopy& header, uint64_t file_bytes) {
  if (header.magic != kMagic || header.version != kLayoutVersion || header.slots != kSlots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "channel: magic ", absl::Hex(header.magic), ", layout version ", header.version, ", ",
        header.slots, " slots; expected magic ", absl::Hex(kMagic), ", version ", kLayoutVersion,
        ", ", kSlots, " slots: belfryd and belfry-card are of different releases"));
  }
  if (header.total_bytes != file_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("channel: header says ", header.total_bytes,
                                                   " bytes, the file has ", file_bytes));
  }
  std::array<ArenaRange, 2 * kSlots> all;
  for (uint32_t i = 0; i < kSlots; ++i) {
    if (auto s = CheckArena("input", i, header.input[i], file_bytes); !s.ok()) return s;
    if (auto s = CheckArena("output", i, header.output[i], file_bytes); !s.ok()) return s;
    all[2 * i] = header.input[i];
    all[2 * i + 1] = header.output[i];
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size(); ++j) {
      if (Overlap(all[i], all[j])) {
        return absl::InvalidArgumentError(absl::StrCat("channel: arenas at offsets ",
                                                       all[i].offset, " and ", all[j].offset,
                                                       " overlap"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const char* name, uint64_t bytes) {
  if (bytes <= Mapping::kMaxArenaBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("channel: ", name, " arena of ", bytes,
                                                 " bytes, expected at most ",
                                                 Mapping::kMaxArenaBytes));
}

}  // namespace

absl::StatusOr<Mapping> Mapping::Create(uint64_t input_bytes, uint64_t output_bytes) {
  if (auto s = CheckSize("input", input_bytes); !s.ok()) return s;
  if (auto s = CheckSize("output", output_bytes); !s.ok()) return s;
  const uint64_t page = PageBytes();
  std::array<ArenaRange, kSlots> input, output;
  uint64_t end = RoundUp(kControlsEnd, page);
  for (uint32_t i = 0; i < kSlots; ++i) {
    input[i] = {end, RoundUp(std::max(input_bytes, kMinArenaBytes), page)};
    end += input[i].bytes;
    output[i] = {end, RoundUp(std::max(output_bytes, kMinArenaBytes), page)};
    end += output[i].bytes;
  }

  Mapping m;
  m.fd_ = memfd_create("belfry-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (m.fd_ < 0) return absl::ErrnoToStatus(errno, "channel: memfd_create");
  if (ftruncate(m.fd_, static_cast<off_t>(end)) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("channel: memfd of ", end, " bytes"));
  }
  // Neither side can shrink the file under the other one (SIGBUS).
  if (fcntl(m.fd_, F_ADD_SEALS, kSeals) != 0) {
    return absl::ErrnoToStatus(errno, "channel: seal the memfd's size");
  }
  void* base = mmap(nullptr, end, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd_, 0);
  if (base == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat("channel: map ", end, " bytes"));
  }
  m.base_ = static_cast<uint8_t*>(base);
  m.size_ = end;
  // A fresh memfd is zero: slots are kFree, bells and flags 0.
  m.SetViews(input, output);
  ChannelHeader& header = *m.header_;
  header.magic = kMagic;
  header.version = kLayoutVersion;
  header.slots = kSlots;
  header.total_bytes = end;
  for (uint32_t i = 0; i < kSlots; ++i) {
    header.input[i] = input[i];
    header.output[i] = output[i];
  }
  return m;
}

absl::StatusOr<Mapping> Mapping::Open(int fd) {
  Mapping m;
  m.fd_ = fd;
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("channel: file descriptor ", fd));
  }
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return absl::InvalidArgumentError(absl::StrCat(
        "channel: file descriptor ", fd, " is not a memfd whose size is sealed (seals ", seals,
        ", expected ", kSeals, ")"));
  }
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (bytes < kControlsEnd) {
    return absl::InvalidArgumentError(absl::StrCat("channel: the file has ", bytes,
                                                   " bytes, expected more than ", kControlsEnd));
  }
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat("channel: map ", bytes, " bytes"));
  }
  m.base_ = static_cast<uint8_t*>(base);
  m.size_ = bytes;
  const HeaderCopy header = CopyHeader(*reinterpret_cast<ChannelHeader*>(m.base_));
  if (auto s = CheckHeader(header, bytes); !s.ok()) return s;
  m.SetViews(header.input, header.output);
  return m;
}

void Mapping::SetViews(const std::array<ArenaRange, kSlots>& input,
                       const std::array<ArenaRange, kSlots>& output) {
  header_ = std::launder(reinterpret_cast<ChannelHeader*>(base_));
  controls_ = std::launder(reinterpret_cast<SlotControl*>(base_ + kControlsOffset));
  for (uint32_t i = 0; i < kSlots; ++i) {
    inputs_[i] = {base_ + input[i].offset, input[i].bytes};
    outputs_[i] = {base_ + output[i].offset, output[i].bytes};
  }
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this == &other) return *this;
  Release();
  fd_ = std::exchange(other.fd_, -1);
  base_ = std::exchange(other.base_, nullptr);
  size_ = std::exchange(other.size_, 0);
  header_ = std::exchange(other.header_, nullptr);
  controls_ = std::exchange(other.controls_, nullptr);
  inputs_ = std::exchange(other.inputs_, {});
  outputs_ = std::exchange(other.outputs_, {});
  return *this;
}

Mapping::~Mapping() { Release(); }

void Mapping::Release() noexcept {
  if (base_ != nullptr) munmap(base_, size_);
  if (fd_ >= 0) close(fd_);
  base_ = nullptr;
  fd_ = -1;
}

}  // namespace belfry::channel
