#include "device/channel/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::channel {
namespace {

using ::testing::HasSubstr;

TEST(MappingTest, BothSidesSeeTheSameMemory) {
  auto front = Mapping::Create(100'000, 50'000);
  ASSERT_TRUE(front.ok()) << front.status();
  auto card = Mapping::Open(dup(front->fd()));
  ASSERT_TRUE(card.ok()) << card.status();
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    EXPECT_GE(front->input(slot).size(), 100'000u);
    EXPECT_GE(front->output(slot).size(), 50'000u);
    ASSERT_EQ(front->input(slot).size(), card->input(slot).size());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(card->input(slot).data()) % kTensorAlign, 0u);
    EXPECT_EQ(card->control(slot).state.load(), static_cast<uint32_t>(SlotState::kFree));
    front->input(slot).back() = static_cast<uint8_t>(10 + slot);
    card->output(slot).back() = static_cast<uint8_t>(20 + slot);
    front->control(slot).sequence = 7 + slot;
  }
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    EXPECT_EQ(card->input(slot).back(), 10 + slot);
    EXPECT_EQ(front->output(slot).back(), 20 + slot);
    EXPECT_EQ(card->control(slot).sequence, 7 + slot);
  }
}

TEST(MappingTest, TheSizeIsSealed) {
  auto front = Mapping::Create(4096, 4096);
  ASSERT_TRUE(front.ok());
  EXPECT_NE(ftruncate(front->fd(), 0), 0);
  EXPECT_NE(ftruncate(front->fd(), 1 << 30), 0);
}

TEST(MappingTest, RefusesAbsurdSizes) {
  EXPECT_FALSE(Mapping::Create(UINT64_MAX, 4096).ok());
  EXPECT_FALSE(Mapping::Create(4096, Mapping::kMaxArenaBytes + 1).ok());
}

TEST(MappingTest, MovesWithoutMovingTheMemory) {
  auto front = Mapping::Create(4096, 4096);
  ASSERT_TRUE(front.ok());
  const uint8_t* data = front->input(0).data();
  Mapping moved = *std::move(front);
  EXPECT_EQ(moved.input(0).data(), data);
  moved.input(0)[0] = 1;
}

TEST(MappingTest, RefusesWhatIsNoSealedMemfd) {
  EXPECT_FALSE(Mapping::Open(open("/dev/null", O_RDWR | O_CLOEXEC)).ok());
  EXPECT_FALSE(Mapping::Open(-1).ok());
  const int unsealed = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(unsealed, 1 << 20), 0);
  EXPECT_THAT(std::string(Mapping::Open(unsealed).status().message()), HasSubstr("sealed"));
  const int tiny = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(tiny, 100), 0);
  ASSERT_EQ(fcntl(tiny, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_THAT(std::string(Mapping::Open(tiny).status().message()), HasSubstr("100 bytes"));
}

struct Fault {
  const char* name;
  std::function<void(ChannelHeader&)> make;
  const char* message;
};

class MappingFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(MappingFaultTest, HeaderIsRefused) {
  auto front = Mapping::Create(8192, 8192);
  ASSERT_TRUE(front.ok());
  GetParam().make(front->header());
  const auto card = Mapping::Open(dup(front->fd()));
  ASSERT_EQ(card.status().code(), absl::StatusCode::kInvalidArgument) << card.status();
  EXPECT_THAT(std::string(card.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, MappingFaultTest,
    ::testing::Values(
        Fault{"Magic", [](ChannelHeader& h) { h.magic ^= 1; }, "magic"},
        Fault{"Version", [](ChannelHeader& h) { h.version = 2; }, "layout version 2"},
        Fault{"Slots", [](ChannelHeader& h) { h.slots = 9; }, "9 slots"},
        Fault{"Total", [](ChannelHeader& h) { h.total_bytes += 4096; }, "header says"},
        Fault{"InHeader", [](ChannelHeader& h) { h.input[1].offset = 0; },
              "input arena of slot 1"},
        Fault{"Unaligned", [](ChannelHeader& h) { h.output[0].offset += 64; },
              "output arena of slot 0"},
        Fault{"Wraps", [](ChannelHeader& h) { h.output[1].bytes = UINT64_MAX - 4095; },
              "output arena of slot 1"},
        Fault{"BeyondEnd", [](ChannelHeader& h) { h.output[1].bytes += 4096; },
              "output arena of slot 1"},
        Fault{"Empty", [](ChannelHeader& h) { h.input[0].bytes = 0; }, "input arena of slot 0"},
        Fault{"Overlap", [](ChannelHeader& h) { h.output[0].offset = h.input[0].offset; },
              "overlap"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(MappingTest, ArenasStayWhereTheyWereWhenOpened) {
  auto front = Mapping::Create(8192, 8192);
  ASSERT_TRUE(front.ok());
  auto card = Mapping::Open(dup(front->fd()));
  ASSERT_TRUE(card.ok());
  const auto before = card->output(0);
  front->header().output[0] = {0, UINT64_MAX};
  EXPECT_EQ(card->output(0).data(), before.data());
  EXPECT_EQ(card->output(0).size(), before.size());
}

}  // namespace
}  // namespace belfry::channel
