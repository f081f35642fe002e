#include "server/base/clock.h"

#include <time.h>

namespace belfry {
namespace {

class RealClock final : public Clock {
 public:
  MonoNs Now() const override {
    timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return static_cast<MonoNs>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec;
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock* const clock = new RealClock;
  return *clock;
}

}  // namespace belfry
