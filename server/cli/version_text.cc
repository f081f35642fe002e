#include "server/cli/version_text.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "server/cli/table.h"

namespace belfry::cli {
namespace {

// One labelled line; further lines of 'text' stand under its first.
void Line(std::string* out, const std::string& label, const std::string& text) {
  if (text.empty()) return;
  bool first = true;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::StrAppendFormat(out, "  %-10s %s\n", first ? label : "", line);
    first = false;
  }
}

// "load 0.8 s, inductor 5.1 s; 7 kernels; fell back: aten._fft_r2c"
std::string ReportText(const std::string& report_json) {
  const auto report = nlohmann::json::parse(report_json, nullptr, false);
  if (!report.is_object()) return "";
  std::vector<std::string> parts, stages, fallbacks;
  for (const auto& stage : report.value("stages", nlohmann::json::array())) {
    if (!stage.is_object()) continue;
    stages.push_back(absl::StrCat(stage.value("name", "?"), " ",
                                  Seconds(stage.value("seconds", 0.0))));
  }
  if (!stages.empty()) parts.push_back(absl::StrJoin(stages, ", "));
  if (const auto at = report.find("kernels"); at != report.end() && at->is_number_integer()) {
    parts.push_back(absl::StrCat(at->get<int64_t>(), " kernels"));
  }
  for (const auto& name : report.value("fallbacks", nlohmann::json::array())) {
    if (name.is_string()) fallbacks.push_back(name.get<std::string>());
  }
  if (!fallbacks.empty()) parts.push_back("fell back: " + absl::StrJoin(fallbacks, ", "));
  return absl::StrJoin(parts, "; ");
}

// A report of another shape than expected must not end the command.
std::string SafeReportText(const std::string& report_json) {
  try {
    return ReportText(report_json);
  } catch (const nlohmann::json::exception&) {
    return "";
  }
}

void AddArtifact(const v1::Artifact& artifact, std::string* out) {
  if (!artifact.key().empty()) {
    Line(out, "artifact",
         absl::StrCat(artifact.target(), "  ", artifact.key(), "  ", Bytes(artifact.bytes()),
                      artifact.cache_hit() ? "  from the cache" : "  compiled by this load"));
    Line(out, "compile",
         absl::StrCat(Seconds(artifact.compile_seconds()), "  ",
                      SafeReportText(artifact.report_json())));
    Line(out, "numerics", absl::StrFormat("largest error against eager %.3g",
                                          artifact.max_abs_error()));
  }
  Line(out, "cache", artifact.cache_miss());
}

std::string BatchingText(const v1::Batching& batching) {
  if (!batching.batchable()) {
    return absl::StrCat("none: ", batching.reason().empty() ? "not possible" : batching.reason());
  }
  std::string text = !batching.symbol().empty() ? absl::StrCat("along '", batching.symbol(), "'")
                     : batching.fixed_size() > 0
                         ? absl::StrCat("padded to ", batching.fixed_size(), " rows")
                         : "along the first axis, where the others are equal";
  if (batching.max_rows() > 0) absl::StrAppend(&text, ", at most ", batching.max_rows(), " rows");
  if (!batching.buckets().empty()) {
    absl::StrAppend(&text, ", sizes ", absl::StrJoin(batching.buckets(), " "));
  }
  if (batching.delay_seconds() > 0) {
    absl::StrAppend(&text, ", waits up to ", Seconds(batching.delay_seconds()));
  }
  if (batching.deterministic()) absl::StrAppend(&text, ", deterministic");
  return text;
}

void AddMetrics(const v1::MetricsSummary& m, std::string* out) {
  Line(out, "requests",
       absl::StrCat(m.requests_ok(), " ok, ", m.requests_failed(), " failed, ", m.expired(),
                    " expired and ", m.cancelled(), " cancelled before a card, ", m.retried(),
                    " retried; ", m.in_flight(), " in flight, ", m.queue_depth(), " waiting"));
  if (m.executions() > 0) {
    Line(out, "batches", absl::StrFormat("%d, %.1f rows on average; %d rows, %d of padding",
                                         m.executions(), m.mean_batch_rows(), m.executed_rows(),
                                         m.padded_rows()));
  }
  if (m.requests_ok() == 0) return;
  const auto pair = [](const char* what, double p50, double p99) {
    return absl::StrCat(what, " ", Seconds(p50), " / ", Seconds(p99));
  };
  Line(out, "p50 / p99",
       absl::StrJoin({pair("request", m.request_p50_seconds(), m.request_p99_seconds()),
                      pair("queue", m.queue_p50_seconds(), m.queue_p99_seconds()),
                      pair("card", m.compute_p50_seconds(), m.compute_p99_seconds())},
                     ", "));
}

std::string ReadySince(double unix_seconds) {
  if (unix_seconds <= 0) return "";
  return absl::StrCat("since ", absl::FormatTime("%Y-%m-%d %H:%M:%S",
                                                 absl::FromUnixSeconds(static_cast<int64_t>(
                                                     unix_seconds)),
                                                 absl::LocalTimeZone()));
}

}  // namespace

std::string StateName(v1::VersionState state) {
  const std::string prefix = "VERSION_STATE_";
  const std::string name = v1::VersionState_Name(state);
  return name.starts_with(prefix) ? name.substr(prefix.size()) : "?";
}

std::string ProgressText(const v1::Progress& progress) {
  if (progress.stage().empty()) return "";
  std::string text = progress.stage();
  if (!progress.target().empty()) absl::StrAppend(&text, " (", progress.target(), ")");
  if (progress.seconds() > 0) absl::StrAppend(&text, ", ", Seconds(progress.seconds()));
  return text;
}

std::string DetailText(const v1::VersionDetail& detail) {
  const v1::VersionSummary& summary = detail.summary();
  std::string out = absl::StrCat(summary.name(), " version ", summary.version(), "  ",
                                 StateName(summary.state()),
                                 summary.default_version() ? "  (default)" : "", "\n");
  Line(&out, "reason", summary.reason());
  if (summary.state() == v1::VERSION_STATE_READY) {
    Line(&out, "ready", ReadySince(summary.ready_unix_seconds()));
  }
  Line(&out, "aliases", absl::StrJoin(summary.aliases(), ", "));
  Line(&out, "progress", ProgressText(summary.progress()));
  if (!summary.progress().log_tail().empty()) Line(&out, "log", summary.progress().log_tail());
  Line(&out, "model", detail.model_path().empty() ? "built in" : detail.model_path());
  Line(&out, "sha256", detail.model_sha256());
  for (const auto& artifact : detail.artifacts()) AddArtifact(artifact, &out);
  Line(&out, "cards", absl::StrJoin(summary.cards(), ", "));
  Line(&out, "tensors", detail.signature());
  if (detail.has_batching()) Line(&out, "batching", BatchingText(detail.batching()));
  if (detail.has_metrics()) AddMetrics(detail.metrics(), &out);
  Line(&out, "model.yaml", detail.config_yaml());
  return out;
}

}  // namespace belfry::cli
