#include "device/channel/doorbell.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <optional>

namespace belfry::channel {
namespace {

// Not FUTEX_PRIVATE_FLAG: the waiter is in another process.
long Futex(std::atomic<uint32_t>* word, int op, uint32_t value, const timespec* until) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), op, value, until, nullptr,
                 FUTEX_BITSET_MATCH_ANY);
}

int64_t NowNs() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec;
}

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#elif defined(__powerpc64__)
  asm volatile("or 27,27,27" ::: "memory");
#else
  asm volatile("" ::: "memory");
#endif
}

}  // namespace

bool Doorbell::Wait(uint32_t ticket, absl::Duration timeout, absl::Duration spin) const {
  if (word_->load(std::memory_order_seq_cst) != ticket) return true;
  if (spin > absl::ZeroDuration()) {
    const int64_t until = NowNs() + absl::ToInt64Nanoseconds(spin);
    do {
      for (int i = 0; i < 32; ++i) {
        if (word_->load(std::memory_order_acquire) != ticket) return true;
        Relax();
      }
    } while (NowNs() < until);
  }

  // An absolute time, so that a wake-up for nothing does not prolong the wait.
  std::optional<timespec> until;
  if (timeout != absl::InfiniteDuration()) {
    until = absl::ToTimespec(absl::Nanoseconds(NowNs()) + timeout);
  }
  // The waiter stores 'sleeping', then loads the word; the ringer increments
  // the word, then loads 'sleeping'. All four are sequentially consistent, so at
  // least one of the two sees the other: either the waiter does not sleep or
  // the ringer wakes it. Weaker orders would allow both to miss (the store
  // buffers of the two cores). Between the check here and falling asleep the
  // kernel compares the word once more under its own lock.
  bool rung = false;
  for (;;) {
    sleeping_->store(1, std::memory_order_seq_cst);
    rung = word_->load(std::memory_order_seq_cst) != ticket;
    if (rung) break;
    const long result =
        Futex(word_, FUTEX_WAIT_BITSET, ticket, until.has_value() ? &*until : nullptr);
    if (result != 0 && errno == ETIMEDOUT) {
      rung = word_->load(std::memory_order_seq_cst) != ticket;
      break;
    }
    // Woken, interrupted or the word had changed: look again.
  }
  sleeping_->store(0, std::memory_order_relaxed);
  return rung;
}

void Doorbell::Ring() const {
  word_->fetch_add(1, std::memory_order_seq_cst);
  // Read only: were the ringer to clear the flag and die before the wake, later
  // rings would believe that the waiter is awake.
  if (sleeping_->load(std::memory_order_seq_cst) != 0) {
    Futex(word_, FUTEX_WAKE, 1, nullptr);
  }
}

void Doorbell::RingAlways() const {
  word_->fetch_add(1, std::memory_order_seq_cst);
  Futex(word_, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace belfry::channel
