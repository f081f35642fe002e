#include "server/serving/queue_plan.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

MonoNs ToMonoNs(absl::Duration duration) {
  return duration == absl::InfiniteDuration() ? kNever : absl::ToInt64Nanoseconds(duration);
}

// "8..1024", "from 2 on"
std::string Shown(const SymbolRange& range) {
  if (range.max == INT64_MAX) return absl::StrCat("from ", range.min, " on");
  return absl::StrCat(range.min, "..", range.max);
}

std::string Quoted(const std::string& name) {
  return absl::StrCat("'", telemetry::Sanitize(name, 128), "'");
}

// Gathers all faults, so that a person mends them in one go.
class QueuePlanner {
 public:
  QueuePlanner(const ModelConfig& config, const Signature& signature, std::string_view report)
      : config_(config), signature_(signature), report_(report) {}

  absl::StatusOr<scheduling::QueueOptions> Plan() {
    PlanLimits();
    PlanBuckets();
    PlanLabels();
    if (!faults_.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("model.yaml: ", absl::StrJoin(faults_, "; ")));
    }
    out_.signature = signature_;
    out_.join = signature_.batchable && config_.batching;
    out_.max_queue = config_.max_queue;
    out_.default_priority = config_.priority;
    out_.default_deadline = ToMonoNs(config_.default_deadline);
    out_.watchdog = ToMonoNs(config_.watchdog);
    return std::move(out_);
  }

 private:
  void PlanLimits() {
    // Rows that see each other are neither joined nor padded nor cut.
    if (!signature_.batchable) return;
    if (config_.batching) out_.limits.delay = ToMonoNs(config_.batch_delay);
    if (signature_.any_tensor) {
      out_.limits.max_rows = config_.max_batch > 0 ? config_.max_batch : kDefaultMaxBatch;
      return;
    }
    if (signature_.batch_symbol.empty()) return PlanFixed();
    const SymbolRange range = RangeOf(signature_.batch_symbol);
    PlanBatchBuckets(range);
    PlanMaxRows(range);
    PlanDeterministic();
  }

  void PlanFixed() {
    const int64_t size = std::max<int64_t>(1, signature_.fixed_batch);
    out_.limits.exact_executed = size;
    out_.limits.max_rows = size;
    if (config_.max_batch > 0) out_.limits.max_rows = std::min(size, config_.max_batch);
    for (int64_t bucket : config_.batch_buckets) {
      if (bucket == size) continue;
      faults_.push_back(absl::StrCat("batch_buckets: got ", bucket,
                                     ", expected ", size, ", the fixed size of the batch axis"));
    }
  }

  void PlanBatchBuckets(const SymbolRange& range) {
    auto& buckets = out_.limits.buckets;
    buckets = config_.batch_buckets;
    const auto named = config_.buckets.find(signature_.batch_symbol);
    if (buckets.empty() && named != config_.buckets.end()) buckets = named->second;
    CheckSizes("batch_buckets", buckets, range);
  }

  void PlanMaxRows(const SymbolRange& range) {
    auto& limits = out_.limits;
    limits.min_executed = std::max<int64_t>(1, range.min);
    limits.max_rows = std::max(limits.min_executed, std::min(range.max, kDefaultMaxBatch));
    if (config_.max_batch > 0) {
      if (config_.max_batch > range.max) {
        faults_.push_back(absl::StrCat("max_batch: got ", config_.max_batch, ", the model takes ",
                                       signature_.batch_symbol, " ", Shown(range)));
      }
      limits.max_rows = config_.max_batch;
    }
    // Nothing larger than the largest bucket is executed.
    if (!limits.buckets.empty()) {
      limits.max_rows = std::min(limits.max_rows, limits.buckets.back());
    }
  }

  void PlanDeterministic() {
    if (!config_.deterministic) return;
    auto& limits = out_.limits;
    int64_t size = DeterministicSize(report_);
    if (size == 0) size = config_.max_batch;
    const SymbolRange range = RangeOf(signature_.batch_symbol);
    if (size < range.min || size > range.max) {
      faults_.push_back(absl::StrCat(
          "deterministic: needs one batch size within ", Shown(range), ", got ",
          size == 0 ? "none: set max_batch" : absl::StrCat(size)));
      return;
    }
    limits.exact_executed = size;
    limits.max_rows = std::min(limits.max_rows, size);
    limits.buckets.clear();
  }

  void PlanBuckets() {
    for (const auto& [symbol, sizes] : config_.buckets) {
      if (symbol == signature_.batch_symbol) continue;  // see PlanBatchBuckets
      if (!signature_.symbols.contains(symbol)) {
        faults_.push_back(absl::StrCat("buckets: the model has no symbol ", Quoted(symbol),
                                       ", it has ", SymbolNames()));
        continue;
      }
      CheckSizes(absl::StrCat("buckets: ", symbol), sizes, RangeOf(symbol));
      out_.buckets[symbol] = sizes;
    }
  }

  void PlanLabels() {
    for (const auto& [output, names] : config_.labels) {
      const auto& outputs = signature_.outputs;
      if (std::none_of(outputs.begin(), outputs.end(),
                       [&](const TensorSpec& spec) { return spec.name == output; })) {
        faults_.push_back(absl::StrCat("labels: the model has no output ", Quoted(output)));
      }
    }
    out_.labels = config_.labels;
  }

  void CheckSizes(const std::string& key, const std::vector<int64_t>& sizes,
                  const SymbolRange& range) {
    for (int64_t size : sizes) {
      if (size >= range.min && size <= range.max) continue;
      faults_.push_back(absl::StrCat(key, ": got ", size, ", expected ", Shown(range)));
    }
  }

  SymbolRange RangeOf(const std::string& symbol) const {
    const auto found = signature_.symbols.find(symbol);
    return found == signature_.symbols.end() ? SymbolRange() : found->second;
  }

  std::string SymbolNames() const {
    if (signature_.symbols.empty()) return "none";
    return absl::StrJoin(signature_.symbols, ", ",
                         [](std::string* out, const auto& s) { *out += s.first; });
  }

  const ModelConfig& config_;
  const Signature& signature_;
  const std::string_view report_;
  scheduling::QueueOptions out_;
  std::vector<std::string> faults_;
};

}  // namespace

absl::StatusOr<scheduling::QueueOptions> PlanQueue(const ModelConfig& config,
                                                   const Signature& signature,
                                                   std::string_view report_json) {
  return QueuePlanner(config, signature, report_json).Plan();
}

int64_t DeterministicSize(std::string_view report_json) {
  const auto report = nlohmann::json::parse(report_json, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object()) return 0;
  const auto part = report.find("deterministic");
  if (part == report.end() || !part->is_object()) return 0;
  const auto checked = part->find("checked");
  const auto size = part->find("size");
  if (checked == part->end() || !checked->is_boolean() || !checked->get<bool>()) return 0;
  if (size == part->end() || !size->is_number_integer()) return 0;
  return std::max<int64_t>(0, size->get<int64_t>());
}

}  // namespace belfry::serving
