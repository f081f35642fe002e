#include "server/rpc/statistics.h"

#include <cmath>

#include "server/scheduling/model_queue.h"

namespace belfry::rpc {
namespace {

using telemetry::Histogram;

void Set(inference::StatisticDuration* out, uint64_t count, double seconds) {
  out->set_count(count);
  out->set_ns(static_cast<uint64_t>(std::llround(seconds * 1e9)));
}

void Set(inference::StatisticDuration* out, const Histogram& histogram) {
  const auto snapshot = histogram.Read();
  Set(out, snapshot.count, snapshot.sum);
}

uint64_t FailedRequests(const telemetry::ModelMetrics& metrics) {
  uint64_t failed = 0;
  for (size_t code = 1; code < metrics.requests.size(); ++code) {
    failed += metrics.requests[code].Value();
  }
  return failed;
}

// Executions by size, as fine as the histogram knows: 'batch_size' is the
// upper end of its bucket (1 and 2 are exact). Time by size is not recorded.
void FillBatches(const telemetry::ModelMetrics& metrics, inference::ModelStatistics* out) {
  const auto snapshot = metrics.batch_rows.Read();
  const auto bounds = metrics.batch_rows.bounds();
  uint64_t below = 0;
  for (size_t i = 0; i < bounds.size() && i < snapshot.cumulative.size(); ++i) {
    const uint64_t count = snapshot.cumulative[i] - below;
    below = snapshot.cumulative[i];
    if (count == 0) continue;
    auto* batch = out->add_batch_stats();
    batch->set_batch_size(static_cast<uint64_t>(bounds[i]));
    batch->mutable_compute_infer()->set_count(count);
  }
}

void Add(const Backend& backend, const serving::VersionEntry& entry,
         inference::ModelStatisticsResponse* response) {
  auto* stats = response->add_model_stats();
  stats->set_name(entry.model);
  stats->set_version(entry.version);
  const auto metrics = MetricsOf(backend, entry);
  if (metrics != nullptr) FillStatistics(*metrics, stats);
}

}  // namespace

std::shared_ptr<telemetry::ModelMetrics> MetricsOf(const Backend& backend,
                                                   const serving::VersionEntry& entry) {
  if (entry.queue != nullptr) return entry.queue->options().metrics;
  if (entry.state != serving::VersionState::kDraining &&
      entry.state != serving::VersionState::kFailed) {
    return nullptr;
  }
  return backend.metrics->ForModel(entry.model, entry.version);
}

void FillStatistics(const telemetry::ModelMetrics& metrics, inference::ModelStatistics* out) {
  out->set_inference_count(metrics.rows.Value());
  out->set_execution_count(metrics.executions.Value());
  auto* stats = out->mutable_inference_stats();
  // One histogram holds all requests; those that fail are a small part of its
  // time, since they hardly run. So the time stands with the successes.
  Set(stats->mutable_success(), metrics.requests[0].Value(), metrics.request_seconds.Read().sum);
  Set(stats->mutable_fail(), FailedRequests(metrics), 0);
  Set(stats->mutable_queue(), metrics.queue_seconds);
  Set(stats->mutable_compute_input(), metrics.copy_in_seconds);
  Set(stats->mutable_compute_infer(), metrics.compute_seconds);
  Set(stats->mutable_compute_output(), metrics.copy_out_seconds);
  FillBatches(metrics, out);
}

absl::Status DescribeStatistics(const Backend& backend,
                                const inference::ModelStatisticsRequest& request,
                                inference::ModelStatisticsResponse* response) {
  if (!request.version().empty()) {
    const auto found = backend.catalog->Find(request.name(), request.version());
    if (!found.ok()) return found.status();
    Add(backend, **found, response);
    return absl::OkStatus();
  }
  if (!request.name().empty()) {
    const auto found = backend.catalog->Find(request.name(), "");
    if (!found.ok()) return found.status();
  }
  for (const auto& entry : backend.catalog->List()) {
    const bool wanted = request.name().empty() || entry->model == request.name();
    if (wanted && entry->state == serving::VersionState::kReady) Add(backend, *entry, response);
  }
  return absl::OkStatus();
}

}  // namespace belfry::rpc
