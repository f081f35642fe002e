// The figures of one served version. Recording is lock-free and cheap enough
// for every request (relaxed atomics, sharded by thread); exposition goes
// through prometheus-cpp (see metrics.h).
#ifndef BELFRY_SERVER_TELEMETRY_MODEL_METRICS_H_
#define BELFRY_SERVER_TELEMETRY_MODEL_METRICS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "server/telemetry/histogram.h"

namespace belfry::telemetry {

// Holds a gauge up by one (or n) for as long as it lives: a gauge that cannot
// drift. Move-only.
class GaugeToken {
 public:
  GaugeToken() = default;
  GaugeToken(std::atomic<int64_t>* gauge, int64_t n) : gauge_(gauge), n_(n) {
    gauge_->fetch_add(n_, std::memory_order_relaxed);
  }
  GaugeToken(GaugeToken&& o) noexcept : gauge_(o.gauge_), n_(o.n_) { o.gauge_ = nullptr; }
  GaugeToken& operator=(GaugeToken&& o) noexcept {
    if (this != &o) {
      Drop();
      gauge_ = o.gauge_;
      n_ = o.n_;
      o.gauge_ = nullptr;
    }
    return *this;
  }
  ~GaugeToken() { Drop(); }
  void Drop() {
    if (gauge_ != nullptr) gauge_->fetch_sub(n_, std::memory_order_relaxed);
    gauge_ = nullptr;
  }

 private:
  std::atomic<int64_t>* gauge_ = nullptr;
  int64_t n_ = 0;
};

// Thread-safe, lock-free. Shared by everyone who records; unregistering it
// from Metrics does not invalidate it.
struct ModelMetrics {
  std::string model;
  std::string version;

  // Finished requests by canonical status code (index = absl::StatusCode).
  std::array<Counter, 17> requests;
  Counter rows;                     // of successful requests
  Counter expired_before_execution;
  Counter cancelled_before_execution;
  Counter retried;                  // requests run again after a card was lost
  Counter executions;               // batches run on a card
  Counter executed_rows;            // real rows in them
  Counter padded_rows;              // rows that were only padding

  Histogram request_seconds{LatencyBuckets()};  // decoded -> answer handed to gRPC
  Histogram queue_seconds{LatencyBuckets()};    // accepted -> taken into a batch
  Histogram compute_seconds{LatencyBuckets()};  // per batch, on the card
  Histogram copy_in_seconds{LatencyBuckets()};  // per batch
  Histogram copy_out_seconds{LatencyBuckets()}; // per batch
  Histogram batch_rows{BatchBuckets()};         // real rows of a batch

  // Real rows by the card that ran them, by the card's index.
  static constexpr size_t kMaxCards = 64;
  std::array<std::atomic<uint64_t>, kMaxCards> card_rows{};
  void AddCardRows(int card, uint64_t n) {
    if (card >= 0 && static_cast<size_t>(card) < kMaxCards) {
      card_rows[static_cast<size_t>(card)].fetch_add(n, std::memory_order_relaxed);
    }
  }

  std::atomic<int64_t> in_flight{0};    // accepted and not yet answered (tokens)
  std::atomic<int64_t> queue_depth{0};  // requests waiting (tokens)
  std::atomic<int64_t> oldest_enqueued_ns{0};  // MonoNs of the queue's oldest; 0: empty
};

}  // namespace belfry::telemetry

#endif  // BELFRY_SERVER_TELEMETRY_MODEL_METRICS_H_
