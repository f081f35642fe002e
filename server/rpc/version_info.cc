#include "server/rpc/version_info.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "device/channel/text.h"
#include "server/rpc/metadata.h"
#include "server/rpc/statistics.h"
#include "server/rpc/status.h"
#include "server/scheduling/model_queue.h"

namespace belfry::rpc {
namespace {

using serving::VersionState;

// Protobuf wants UTF-8 in its strings, which compilers' logs and paths need not
// be: CleanText goes over whatever is not ours.

// "cpu:0" -> "cpu".
std::string DriverOf(const std::string& card) { return card.substr(0, card.find(':')); }

bool OnItsWay(VersionState state) {
  return state == VersionState::kUploaded || state == VersionState::kCompiling ||
         state == VersionState::kCompiled || state == VersionState::kLoading ||
         state == VersionState::kWarming;
}

// The stage as the manager tells it, else the state's own word.
void FillProgress(const serving::VersionStatus& status, v1::Progress* out) {
  std::string stage = status.progress.stage;
  if (stage.empty() && status.state == VersionState::kCompiling) stage = "queued";
  if (stage.empty()) {
    stage = absl::AsciiStrToLower(AbslView(serving::VersionStateName(status.state)));
  }
  out->set_target(status.progress_target);
  out->set_stage(CleanText(stage));
  out->set_seconds(status.progress.seconds);
  out->set_log_tail(CleanText(status.progress.log_tail));
}

std::shared_ptr<const serving::VersionEntry> EntryOf(const Backend& backend,
                                                     const serving::VersionStatus& status) {
  const auto entry = backend.catalog->Find(status.model, status.version);
  return entry.ok() ? *entry : nullptr;
}

void FillBatching(const Signature& signature, const scheduling::QueueOptions* queue,
                  v1::Batching* out) {
  out->set_batchable(signature.batchable);
  out->set_reason(CleanText(signature.unbatched_reason));
  out->set_symbol(signature.batch_symbol);
  out->set_fixed_size(signature.fixed_batch);
  if (queue == nullptr) return;
  if (signature.batchable && !queue->join) {
    out->set_batchable(false);
    out->set_reason("switched off by model.yaml (batching: false)");
  }
  out->set_max_rows(queue->limits.max_rows);
  for (int64_t size : queue->limits.buckets) out->add_buckets(size);
  out->set_delay_seconds(static_cast<double>(queue->limits.delay) * 1e-9);
  out->set_deterministic(queue->limits.exact_executed > 0 && signature.fixed_batch == 0);
}

void FillArtifact(const serving::ArtifactStatus& status, bool explain, v1::Artifact* out) {
  out->set_target(status.target);
  out->set_key(status.key);
  out->set_cache_hit(status.cache_hit);
  out->set_compile_seconds(status.compile_seconds);
  out->set_max_abs_error(status.max_abs_error);
  out->set_bytes(status.bytes);
  out->set_report_json(CleanText(status.report_json));
  if (explain) out->set_cache_miss(CleanText(status.miss));
}

// Asks the cache where the load itself has not told.
void Explain(const Backend& backend, const serving::VersionStatus& status,
             v1::VersionDetail* out) {
  const auto told = [](const v1::Artifact& artifact) { return !artifact.cache_miss().empty(); };
  if (std::any_of(out->artifacts().begin(), out->artifacts().end(), told)) return;
  const auto text = backend.manager->ExplainCacheMiss(status.model, status.version);
  auto* artifact = out->artifacts().empty() ? out->add_artifacts() : out->mutable_artifacts(0);
  artifact->set_cache_miss(
      CleanText(text.ok() ? std::string_view(*text) : StdView(text.status().message())));
}

}  // namespace

v1::VersionState ToProto(VersionState state) {
  switch (state) {
    case VersionState::kUploaded:
      return v1::VERSION_STATE_UPLOADED;
    case VersionState::kCompiling:
      return v1::VERSION_STATE_COMPILING;
    case VersionState::kCompiled:
      return v1::VERSION_STATE_COMPILED;
    case VersionState::kLoading:
      return v1::VERSION_STATE_LOADING;
    case VersionState::kWarming:
      return v1::VERSION_STATE_WARMING;
    case VersionState::kReady:
      return v1::VERSION_STATE_READY;
    case VersionState::kDraining:
      return v1::VERSION_STATE_DRAINING;
    case VersionState::kUnloaded:
      return v1::VERSION_STATE_UNLOADED;
    case VersionState::kFailed:
      return v1::VERSION_STATE_FAILED;
  }
  return v1::VERSION_STATE_UNSPECIFIED;
}

int64_t VersionNumber(const std::string& version) {
  int64_t number = 0;
  return absl::SimpleAtoi(version, &number) ? number : 0;
}

void SortVersions(std::vector<serving::VersionStatus>* versions) {
  std::sort(versions->begin(), versions->end(), [](const auto& a, const auto& b) {
    const int64_t x = VersionNumber(a.version), y = VersionNumber(b.version);
    return std::tie(a.model, x) < std::tie(b.model, y);
  });
}

v1::VersionSummary Summarize(const Backend& backend, const serving::VersionStatus& status) {
  v1::VersionSummary out;
  out.set_name(status.model);
  out.set_version(VersionNumber(status.version));
  out.set_state(ToProto(status.state));
  out.set_reason(CleanText(status.reason));
  const auto served = backend.catalog->Resolve(status.model, "");
  out.set_default_version(served.ok() && (*served)->version == status.version);
  std::set<std::string> targets;
  for (const auto& artifact : status.artifacts) targets.insert(artifact.target);
  for (const auto& card : status.cards) {
    out.add_cards(card);
    targets.insert(DriverOf(card));
  }
  for (const auto& target : targets) out.add_targets(target);
  if (OnItsWay(status.state)) FillProgress(status, out.mutable_progress());
  out.set_ready_unix_seconds(status.ready_unix_seconds);
  return out;
}

void FillMetrics(const telemetry::ModelMetrics& metrics, v1::MetricsSummary* out) {
  out->set_requests_ok(metrics.requests[0].Value());
  uint64_t failed = 0;
  for (size_t code = 1; code < metrics.requests.size(); ++code) {
    failed += metrics.requests[code].Value();
  }
  out->set_requests_failed(failed);
  out->set_rows(metrics.rows.Value());
  out->set_executions(metrics.executions.Value());
  out->set_executed_rows(metrics.executed_rows.Value());
  out->set_padded_rows(metrics.padded_rows.Value());
  if (out->executions() > 0) {
    out->set_mean_batch_rows(static_cast<double>(out->executed_rows()) /
                             static_cast<double>(out->executions()));
  }
  const auto quantile = [](const telemetry::Histogram& histogram, double q) {
    return histogram.Read().Quantile(q, histogram.bounds());
  };
  out->set_request_p50_seconds(quantile(metrics.request_seconds, 0.5));
  out->set_request_p99_seconds(quantile(metrics.request_seconds, 0.99));
  out->set_queue_p50_seconds(quantile(metrics.queue_seconds, 0.5));
  out->set_queue_p99_seconds(quantile(metrics.queue_seconds, 0.99));
  out->set_compute_p50_seconds(quantile(metrics.compute_seconds, 0.5));
  out->set_compute_p99_seconds(quantile(metrics.compute_seconds, 0.99));
  out->set_in_flight(metrics.in_flight.load(std::memory_order_relaxed));
  out->set_queue_depth(metrics.queue_depth.load(std::memory_order_relaxed));
  out->set_expired(metrics.expired_before_execution.Value());
  out->set_cancelled(metrics.cancelled_before_execution.Value());
  out->set_retried(metrics.retried.Value());
}

v1::VersionDetail Detail(const Backend& backend, const serving::VersionStatus& status,
                         bool explain) {
  v1::VersionDetail out;
  *out.mutable_summary() = Summarize(backend, status);
  const auto entry = EntryOf(backend, status);
  if (status.signature != nullptr) {
    out.set_signature(absl::StrJoin(DescribeSignature(*status.signature), "\n"));
    const bool served = entry != nullptr && entry->queue != nullptr;
    FillBatching(*status.signature, served ? &entry->queue->options() : nullptr,
                 out.mutable_batching());
  }
  for (const auto& artifact : status.artifacts) {
    FillArtifact(artifact, explain, out.add_artifacts());
  }
  if (explain) Explain(backend, status, &out);
  if (entry != nullptr) {
    const auto metrics = MetricsOf(backend, *entry);
    if (metrics != nullptr) FillMetrics(*metrics, out.mutable_metrics());
  }
  out.set_model_path(CleanText(status.path));
  out.set_model_sha256(status.sha256);
  out.set_config_yaml(CleanText(status.config_yaml));
  return out;
}

}  // namespace belfry::rpc
