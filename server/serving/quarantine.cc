#include "server/serving/quarantine.h"

namespace belfry::serving {

bool CrashWindow::Add(MonoNs now) {
  times_.push_back(now);
  while (now - times_.front() >= window_ && times_.size() > 1) times_.pop_front();
  // More than 'limit' need not be kept: they say nothing new.
  while (times_.size() > static_cast<size_t>(limit_)) times_.pop_front();
  return times_.size() >= static_cast<size_t>(limit_);
}

}  // namespace belfry::serving
