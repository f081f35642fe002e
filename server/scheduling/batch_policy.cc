#include "server/scheduling/batch_policy.h"

#include <algorithm>

namespace belfry::scheduling {
namespace {

bool Starves(MonoNs oldest_enqueued, MonoNs now) {
  return now - oldest_enqueued > kStarvationNs;
}

// Most real rows that an execution can carry under the limits.
int64_t RowLimit(int64_t room, const BatchLimits& limits) {
  int64_t most = std::min(limits.max_rows, room);
  if (limits.exact_executed > 0) {
    return limits.exact_executed <= room ? std::min(most, limits.exact_executed) : 0;
  }
  if (limits.min_executed > room) return 0;
  if (limits.buckets.empty()) return most;
  // With buckets the padded size must have room: the largest bucket that fits.
  const auto above = std::upper_bound(limits.buckets.begin(), limits.buckets.end(), room);
  if (above == limits.buckets.begin()) return 0;
  return std::min(most, *(above - 1));
}

}  // namespace

bool MoreUrgent(const WaitingRequest& a, const WaitingRequest& b) {
  if (a.priority != b.priority) return a.priority < b.priority;
  if (a.deadline != b.deadline) return a.deadline < b.deadline;
  return a.arrival < b.arrival;
}

int ChooseGroup(std::span<const GroupView> groups, MonoNs now) {
  int urgent = -1;
  int oldest = -1;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].rows <= 0) continue;
    if (urgent < 0 || MoreUrgent(groups[i].urgent, groups[urgent].urgent)) {
      urgent = static_cast<int>(i);
    }
    if (oldest < 0 || groups[i].oldest_enqueued < groups[oldest].oldest_enqueued) {
      oldest = static_cast<int>(i);
    }
  }
  if (oldest >= 0 && Starves(groups[oldest].oldest_enqueued, now)) return oldest;
  return urgent;
}

int64_t ChooseRows(int64_t waiting, int64_t room, const BatchLimits& limits) {
  return std::max<int64_t>(0, std::min(waiting, RowLimit(room, limits)));
}

int64_t ExecutedRows(int64_t rows, const BatchLimits& limits) {
  if (limits.exact_executed > 0) return limits.exact_executed;
  rows = std::max(rows, limits.min_executed);
  const auto bucket = std::lower_bound(limits.buckets.begin(), limits.buckets.end(), rows);
  return bucket == limits.buckets.end() ? rows : *bucket;
}

MonoNs ReadyAt(const GroupView& group, const BatchLimits& limits) {
  if (limits.delay <= 0 || group.rows >= limits.max_rows) return group.oldest_enqueued;
  return group.oldest_enqueued + limits.delay;
}

int ChooseModel(std::span<const ModelView> models, MonoNs now) {
  int best = -1;
  const auto priority = [&](const ModelView& m) {
    return Starves(m.oldest_enqueued, now) ? 1u : m.priority;
  };
  for (size_t i = 0; i < models.size(); ++i) {
    if (best < 0) {
      best = static_cast<int>(i);
      continue;
    }
    const uint32_t a = priority(models[i]);
    const uint32_t b = priority(models[best]);
    if (a < b || (a == b && models[i].consumed < models[best].consumed)) {
      best = static_cast<int>(i);
    }
  }
  return best;
}

}  // namespace belfry::scheduling
