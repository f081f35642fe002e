// A counter and a histogram that any thread records into without a lock.
// Sharded by thread so that cores do not fight over one cache line; a reader
// adds the shards up, so its view is not one instant but never goes backwards.
#ifndef BELFRY_SERVER_TELEMETRY_HISTOGRAM_H_
#define BELFRY_SERVER_TELEMETRY_HISTOGRAM_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace belfry::telemetry {

inline constexpr size_t kShards = 4;  // a power of two

// This thread's shard.
size_t ShardIndex();

class Counter {
 public:
  void Add(uint64_t n = 1) {
    shards_[ShardIndex()].value.fetch_add(n, std::memory_order_relaxed);
  }
  uint64_t Value() const;

 private:
  struct alignas(64) Shard {
    std::atomic<uint64_t> value{0};
  };
  std::array<Shard, kShards> shards_;
};

// Upper bounds of the latency buckets, seconds: 0.1 ms … 10 s.
std::span<const double> LatencyBuckets();
// Upper bounds of the batch-size buckets: 1, 2, 4 … 1024, then 4096.
std::span<const double> BatchBuckets();

class Histogram {
 public:
  static constexpr size_t kMaxBuckets = 24;
  explicit Histogram(std::span<const double> bounds);  // static storage, ascending
  void Observe(double value);

  struct Snapshot {
    std::vector<uint64_t> cumulative;  // per bound, then +Inf
    uint64_t count = 0;
    double sum = 0;
    // Linear interpolation inside the bucket; 0 when empty.
    double Quantile(double q, std::span<const double> bounds) const;
  };
  Snapshot Read() const;
  std::span<const double> bounds() const { return bounds_; }

 private:
  struct alignas(64) Shard {
    std::array<std::atomic<uint64_t>, kMaxBuckets + 1> counts{};
    std::atomic<double> sum{0};
  };
  std::span<const double> bounds_;
  std::array<Shard, kShards> shards_;
};

}  // namespace belfry::telemetry

#endif  // BELFRY_SERVER_TELEMETRY_HISTOGRAM_H_
