#include "server/telemetry/histogram.h"

#include <algorithm>
#include <cmath>

namespace belfry::telemetry {
namespace {

static_assert((kShards & (kShards - 1)) == 0, "ShardIndex masks");

constexpr double kLatency[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                               0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
constexpr double kBatch[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096};

}  // namespace

size_t ShardIndex() {
  // Dealt in turn, so that any kShards threads started after each other do not
  // share one; a hash of the thread id gives no such promise.
  static std::atomic<size_t> next{0};
  thread_local const size_t shard = next.fetch_add(1, std::memory_order_relaxed) & (kShards - 1);
  return shard;
}

uint64_t Counter::Value() const {
  uint64_t total = 0;
  for (const Shard& shard : shards_) total += shard.value.load(std::memory_order_relaxed);
  return total;
}

std::span<const double> LatencyBuckets() { return kLatency; }
std::span<const double> BatchBuckets() { return kBatch; }

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds.first(std::min(bounds.size(), kMaxBuckets))) {}

void Histogram::Observe(double value) {
  if (std::isnan(value)) return;
  // A sum that shrinks would look like a restart to Prometheus.
  value = std::max(value, 0.0);
  const size_t bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  Shard& shard = shards_[ShardIndex()];
  shard.counts[bucket].fetch_add(1, std::memory_order_relaxed);
  shard.sum.fetch_add(value, std::memory_order_relaxed);
}

Histogram::Snapshot Histogram::Read() const {
  Snapshot snapshot;
  snapshot.cumulative.resize(bounds_.size() + 1);
  for (const Shard& shard : shards_) {
    for (size_t i = 0; i <= bounds_.size(); ++i) {
      snapshot.cumulative[i] += shard.counts[i].load(std::memory_order_relaxed);
    }
    snapshot.sum += shard.sum.load(std::memory_order_relaxed);
  }
  for (size_t i = 1; i < snapshot.cumulative.size(); ++i) {
    snapshot.cumulative[i] += snapshot.cumulative[i - 1];
  }
  // Taken from the buckets, not counted apart: the exposition's _count always
  // equals its +Inf bucket.
  snapshot.count = snapshot.cumulative.back();
  return snapshot;
}

double Histogram::Snapshot::Quantile(double q, std::span<const double> bounds) const {
  if (count == 0 || bounds.empty() || cumulative.size() != bounds.size() + 1) return 0;
  const double rank = std::clamp(q, 0.0, 1.0) * static_cast<double>(count);
  for (size_t i = 0; i < bounds.size(); ++i) {
    if (static_cast<double>(cumulative[i]) < rank || cumulative[i] == 0) continue;
    const double low = i == 0 ? 0 : bounds[i - 1];
    const double before = i == 0 ? 0 : static_cast<double>(cumulative[i - 1]);
    const double inside = static_cast<double>(cumulative[i]) - before;
    const double part = inside > 0 ? std::clamp((rank - before) / inside, 0.0, 1.0) : 1;
    return low + (bounds[i] - low) * part;
  }
  return bounds.back();  // beyond the last bound nothing is known but that
}

}  // namespace belfry::telemetry
