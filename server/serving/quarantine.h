// When a version has brought down cards too often.
#ifndef BELFRY_SERVER_SERVING_QUARANTINE_H_
#define BELFRY_SERVER_SERVING_QUARANTINE_H_

#include <deque>

#include "server/base/clock.h"

namespace belfry::serving {

// Counts events within a window that slides with the time of the newest one. A
// window, not a total: over months, any version is near some card that is lost.
// Not thread-safe.
class CrashWindow {
 public:
  // 'limit' >= 1 events within 'window' are too many.
  CrashWindow(int limit, MonoNs window) : limit_(limit), window_(window) {}

  // Notes a crash at 'now' (never earlier than the one before). True if it is
  // one too many.
  bool Add(MonoNs now);
  // Crashes within the window that ends at the newest one.
  int count() const { return static_cast<int>(times_.size()); }
  void Reset() { times_.clear(); }

 private:
  int limit_;
  MonoNs window_;
  std::deque<MonoNs> times_;
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_QUARANTINE_H_
