// Monotonic time through an interface, so that tests own the clock.
#ifndef BELFRY_SERVER_BASE_CLOCK_H_
#define BELFRY_SERVER_BASE_CLOCK_H_

#include <atomic>
#include <cstdint>
#include <limits>

namespace belfry {

// Nanoseconds of CLOCK_MONOTONIC; comparable between processes of one host.
using MonoNs = int64_t;

inline constexpr MonoNs kNever = std::numeric_limits<MonoNs>::max();

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonoNs Now() const = 0;

  static const Clock& Real();
};

// A clock that moves only when told to. Thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(MonoNs start = 1'000'000'000) : now_(start) {}
  MonoNs Now() const override { return now_.load(std::memory_order_relaxed); }
  void Advance(MonoNs by) { now_.fetch_add(by, std::memory_order_relaxed); }

 private:
  std::atomic<MonoNs> now_;
};

}  // namespace belfry

#endif  // BELFRY_SERVER_BASE_CLOCK_H_
