#include "device/channel/doorbell.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "gtest/gtest.h"

namespace belfry::channel {
namespace {

struct Words {
  alignas(64) std::atomic<uint32_t> bell{0};
  std::atomic<uint32_t> sleeping{0};
  alignas(64) std::atomic<uint32_t> other_bell{0};
  std::atomic<uint32_t> other_sleeping{0};
  std::atomic<uint64_t> ball{0};
  Doorbell Bell() { return Doorbell(&bell, &sleeping); }
  Doorbell Other() { return Doorbell(&other_bell, &other_sleeping); }
};

TEST(DoorbellTest, ARingAfterTheTicketIsNotLost) {
  Words w;
  const uint32_t ticket = w.Bell().Ticket();
  w.Bell().Ring();
  EXPECT_TRUE(w.Bell().Wait(ticket, absl::InfiniteDuration()));
}

TEST(DoorbellTest, TimesOutWithoutARing) {
  Words w;
  EXPECT_FALSE(w.Bell().Wait(w.Bell().Ticket(), absl::Milliseconds(1)));
  EXPECT_FALSE(w.Bell().Wait(w.Bell().Ticket(), absl::ZeroDuration()));
  EXPECT_FALSE(w.Bell().Wait(w.Bell().Ticket(), absl::Milliseconds(1), absl::Microseconds(50)));
  EXPECT_EQ(w.sleeping.load(), 0u);
}

TEST(DoorbellTest, RingAlwaysWakesAlthoughTheFlagWasCleared) {
  Words w;
  const uint32_t ticket = w.Bell().Ticket();
  std::thread waiter([&] { EXPECT_TRUE(w.Bell().Wait(ticket, absl::InfiniteDuration())); });
  while (w.sleeping.load() == 0) std::this_thread::yield();
  w.sleeping.store(0);
  w.Bell().RingAlways();
  waiter.join();
}

// Two threads pass a number to and fro; each step needs the other's ring. A
// lost wake-up hangs the test.
TEST(DoorbellTest, NoRingIsLostBetweenThreads) {
  Words w;
  constexpr uint64_t kSteps = 20000;
  auto play = [&w](uint64_t mine, Doorbell own, Doorbell other) {
    for (;;) {
      const uint32_t ticket = own.Ticket();
      const uint64_t ball = w.ball.load(std::memory_order_acquire);
      if (ball >= kSteps) {
        other.Ring();
        return;
      }
      if (ball % 2 == mine) {
        w.ball.store(ball + 1, std::memory_order_release);
        other.Ring();
      } else {
        own.Wait(ticket, absl::InfiniteDuration());
      }
    }
  };
  std::thread other(play, 1, w.Other(), w.Bell());
  play(0, w.Bell(), w.Other());
  other.join();
  EXPECT_EQ(w.ball.load(), kSteps);
}

TEST(DoorbellTest, ManyRingersOneWaiter) {
  Words w;
  constexpr uint64_t kRingers = 4, kEach = 5000;
  std::vector<std::thread> ringers;
  for (uint64_t i = 0; i < kRingers; ++i) {
    ringers.emplace_back([&w] {
      for (uint64_t n = 0; n < kEach; ++n) {
        w.ball.fetch_add(1, std::memory_order_release);
        w.Bell().Ring();
      }
    });
  }
  for (;;) {
    const uint32_t ticket = w.Bell().Ticket();
    if (w.ball.load(std::memory_order_acquire) == kRingers * kEach) break;
    w.Bell().Wait(ticket, absl::InfiniteDuration());
  }
  for (auto& r : ringers) r.join();
}

TEST(DoorbellTest, WakesAnotherProcess) {
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* w = new (memory) Words;
  const uint32_t ticket = w->Other().Ticket();
  const pid_t child = fork();
  if (child == 0) {
    const bool rung = w->Bell().Wait(0, absl::Seconds(60));
    w->Other().Ring();
    _exit(rung ? 0 : 1);
  }
  while (w->sleeping.load() == 0) std::this_thread::yield();
  w->Bell().Ring();
  EXPECT_TRUE(w->Other().Wait(ticket, absl::Seconds(60)));
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  munmap(memory, 4096);
}

}  // namespace
}  // namespace belfry::channel
