#include "server/rpc/version_info.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "device/manifest/manifest.h"
#include "server/base/text.h"
#include "server/rpc/metadata.h"
#include "server/rpc/statistics.h"
#include "server/rpc/status.h"
#include "server/scheduling/model_queue.h"

namespace belfry::rpc {
namespace {

using serving::VersionState;

constexpr size_t kMaxConfigBytes = 64 << 10;

// A part of protobuf's contract: strings are UTF-8. Compilers' logs need not be.
std::string Text(std::string_view text) { return CleanText(text); }

// "cpu:0" -> "cpu".
std::string DriverOf(const std::string& card) { return card.substr(0, card.find(':')); }

bool OnItsWay(VersionState state) {
  return state == VersionState::kUploaded || state == VersionState::kCompiling ||
         state == VersionState::kCompiled || state == VersionState::kLoading ||
         state == VersionState::kWarming;
}

// The compiler's stage while it runs, else the state's own word.
void FillProgress(const serving::VersionStatus& status, v1::Progress* out) {
  const bool compiling = status.state == VersionState::kCompiling;
  std::string stage(serving::VersionStateName(status.state));
  if (compiling) stage = status.progress.stage.empty() ? "queued" : status.progress.stage;
  std::transform(stage.begin(), stage.end(), stage.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  out->set_stage(stage);
  if (!compiling) return;
  out->set_seconds(status.progress.seconds);
  out->set_log_tail(Text(status.progress.log_tail));
}

std::shared_ptr<const serving::VersionEntry> EntryOf(const Backend& backend,
                                                     const serving::VersionStatus& status) {
  const auto entry = backend.catalog->Find(status.model, status.version);
  return entry.ok() ? *entry : nullptr;
}

void FillBatching(const Signature& signature, const scheduling::QueueOptions* queue,
                  v1::Batching* out) {
  out->set_batchable(signature.batchable);
  out->set_reason(Text(signature.unbatched_reason));
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

void FillArtifact(const Backend& backend, const serving::VersionStatus& status,
                  v1::VersionDetail* out) {
  auto* artifact = out->add_artifacts();
  artifact->set_key(status.key);
  artifact->set_cache_hit(status.cache_hit);
  artifact->set_compile_seconds(status.compile_seconds);
  artifact->set_report_json(status.report_json);
  // The rest stands in the artifact itself, for as long as it is in the cache.
  const auto manifest = ReadManifest(backend.artifacts_dir + "/" + status.key);
  if (!manifest.ok()) return;
  artifact->set_target(manifest->target);
  artifact->set_compile_seconds(manifest->compile_seconds);
  artifact->set_max_abs_error(manifest->max_abs_error);
  uint64_t bytes = 0;
  for (const auto& file : manifest->files) bytes += file.bytes;
  artifact->set_bytes(bytes);
  const auto sha = manifest->key_fields.find("model_sha256");
  if (sha != manifest->key_fields.end()) out->set_model_sha256(sha->second);
}

// model.yaml beside the model, as it stands there now.
std::string ConfigBeside(const std::string& model_path) {
  if (model_path.empty()) return "";
  std::ifstream file(std::filesystem::path(model_path).parent_path() / "model.yaml",
                     std::ios::binary);
  std::string text(kMaxConfigBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return Text(text);
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
  out.set_reason(Text(status.reason));
  const auto served = backend.catalog->Resolve(status.model, "");
  out.set_default_version(served.ok() && (*served)->version == status.version);
  std::set<std::string> targets;
  for (const auto& card : status.cards) {
    out.add_cards(card);
    targets.insert(DriverOf(card));
  }
  for (const auto& target : targets) out.add_targets(target);
  if (OnItsWay(status.state)) FillProgress(status, out.mutable_progress());
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
  if (!status.key.empty()) FillArtifact(backend, status, &out);
  if (entry != nullptr) {
    const auto metrics = MetricsOf(backend, *entry);
    if (metrics != nullptr) FillMetrics(*metrics, out.mutable_metrics());
  }
  out.set_model_path(Text(status.path));
  out.set_config_yaml(ConfigBeside(status.path));
  if (explain) {
    const auto text = backend.manager->ExplainCacheMiss(status.model, status.version);
    if (out.artifacts().empty()) out.add_artifacts();
    out.mutable_artifacts(0)->set_cache_miss(
        Text(text.ok() ? std::string_view(*text) : StdView(text.status().message())));
  }
  return out;
}

}  // namespace belfry::rpc
