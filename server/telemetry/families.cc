#include "server/telemetry/families.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "server/telemetry/process.h"

namespace belfry::telemetry {
namespace {

using Label = prometheus::ClientMetric::Label;
using Labels = std::vector<Label>;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Models = std::vector<std::shared_ptr<ModelMetrics>>;

constexpr double kCompileBuckets[] = {0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800};

// The states of the two state sets: each is shown for every subject, with 1 for
// the one that holds, so that a query needs no guess at what was there before.
constexpr std::string_view kVersionStates[] = {"UPLOADED", "COMPILING", "COMPILED",
                                               "LOADING",  "WARMING",   "READY",
                                               "DRAINING", "UNLOADED",  "FAILED"};
constexpr std::string_view kCardStates[] = {"STARTING", "READY", "RESTARTING", "STOPPED"};

// Collects the samples of one family. A family without samples is left out:
// prometheus-cpp would print its HELP and TYPE alone.
class Builder {
 public:
  Builder(Families& out, MetricType type, std::string name, std::string help) : out_(out) {
    family_.name = std::move(name);
    family_.help = std::move(help);
    family_.type = type;
  }
  ~Builder() {
    if (!family_.metric.empty()) out_.push_back(std::move(family_));
  }
  Builder(const Builder&) = delete;

  void Value(Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    if (family_.type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    family_.metric.push_back(std::move(metric));
  }

  void Observations(Labels labels, const Histogram& histogram) {
    const Histogram::Snapshot read = histogram.Read();
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.histogram.sample_count = read.count;
    metric.histogram.sample_sum = read.sum;
    const std::span<const double> bounds = histogram.bounds();
    for (size_t i = 0; i < read.cumulative.size(); ++i) {
      const double bound =
          i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back({read.cumulative[i], bound});
    }
    family_.metric.push_back(std::move(metric));
  }

 private:
  Families& out_;
  MetricFamily family_;
};

Labels Of(const ModelMetrics& m) { return {{"model", m.model}, {"version", m.version}}; }

Labels With(Labels labels, std::string name, std::string value) {
  labels.push_back({std::move(name), std::move(value)});
  return labels;
}

std::string CodeName(size_t code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

// Codes that a healthy client or an overloaded server produces every day are
// shown from the start, at 0, so that the first of them counts in rate().
bool AlwaysShown(size_t code) {
  switch (static_cast<absl::StatusCode>(code)) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable: return true;
    default: return false;
  }
}

void AddRequests(const Models& models, Families& out) {
  Builder family(out, MetricType::Counter, "belfry_requests_total",
                 "Requests answered, by model, version and status code.");
  for (const auto& m : models) {
    for (size_t code = 0; code < m->requests.size(); ++code) {
      const uint64_t value = m->requests[code].Value();
      if (value != 0 || AlwaysShown(code)) {
        family.Value(With(Of(*m), "code", CodeName(code)), static_cast<double>(value));
      }
    }
  }
}

void AddModelCounter(const Models& models, const Counter ModelMetrics::*counter, std::string name,
                     std::string help, Families& out) {
  Builder family(out, MetricType::Counter, std::move(name), std::move(help));
  for (const auto& m : models) {
    family.Value(Of(*m), static_cast<double>(((*m).*counter).Value()));
  }
}

void AddModelHistogram(const Models& models, const Histogram ModelMetrics::*histogram,
                       std::string name, std::string help, Families& out) {
  Builder family(out, MetricType::Histogram, std::move(name), std::move(help));
  for (const auto& m : models) family.Observations(Of(*m), (*m).*histogram);
}

void AddModelGauge(const Models& models, const std::atomic<int64_t> ModelMetrics::*gauge,
                   std::string name, std::string help, Families& out) {
  Builder family(out, MetricType::Gauge, std::move(name), std::move(help));
  for (const auto& m : models) {
    family.Value(Of(*m), static_cast<double>(((*m).*gauge).load(std::memory_order_relaxed)));
  }
}

void AddCopy(const Models& models, Families& out) {
  Builder family(out, MetricType::Histogram, "belfry_copy_duration_seconds",
                 "Time to copy one batch between requests and a card's memory.");
  for (const auto& m : models) {
    family.Observations(With(Of(*m), "direction", "in"), m->copy_in_seconds);
    family.Observations(With(Of(*m), "direction", "out"), m->copy_out_seconds);
  }
}

void AddOldestAge(const Models& models, MonoNs now, Families& out) {
  Builder family(out, MetricType::Gauge, "belfry_queue_oldest_age_seconds",
                 "Age of the request that has waited longest; 0 when none waits.");
  for (const auto& m : models) {
    const MonoNs since = m->oldest_enqueued_ns.load(std::memory_order_relaxed);
    const double age = since == 0 ? 0 : std::max(0.0, static_cast<double>(now - since) / 1e9);
    family.Value(Of(*m), age);
  }
}

// Cards come in the order of their index.
void AddCardRows(const Models& models, const std::vector<CardSample>& cards, Families& out) {
  Builder family(out, MetricType::Counter, "belfry_card_rows_total",
                 "Real rows that a card ran for a model.");
  for (const auto& m : models) {
    for (size_t i = 0; i < cards.size() && i < ModelMetrics::kMaxCards; ++i) {
      const uint64_t rows = m->card_rows[i].load(std::memory_order_relaxed);
      if (rows > 0) family.Value(With(Of(*m), "card", cards[i].card), static_cast<double>(rows));
    }
  }
}

// One sample per known state; a state that this list does not know is shown too.
template <size_t N>
void AddStateSet(Builder& family, const Labels& subject, const std::string& state,
                 const std::string_view (&known)[N]) {
  for (std::string_view name : known) {
    family.Value(With(subject, "state", std::string(name)), name == state ? 1 : 0);
  }
  if (std::find(std::begin(known), std::end(known), state) == std::end(known)) {
    family.Value(With(subject, "state", state), 1);
  }
}

}  // namespace

TargetFigures::TargetFigures() : compile_seconds(kCompileBuckets) {}

void AddModelFamilies(const Models& models, const std::vector<CardSample>& cards, MonoNs now,
                      Families& out) {
  using M = ModelMetrics;
  AddCardRows(models, cards, out);
  AddRequests(models, out);
  AddModelCounter(models, &M::rows, "belfry_rows_total",
                  "Rows of requests that were answered with OK.", out);
  AddModelHistogram(models, &M::request_seconds, "belfry_request_duration_seconds",
                    "Time from the decoded request to the answer handed to gRPC.", out);
  AddModelHistogram(models, &M::queue_seconds, "belfry_queue_duration_seconds",
                    "Time from acceptance until a batch takes the request.", out);
  AddModelHistogram(models, &M::compute_seconds, "belfry_compute_duration_seconds",
                    "Time of one batch on a card.", out);
  AddCopy(models, out);
  AddModelHistogram(models, &M::batch_rows, "belfry_batch_rows",
                    "Real rows of a batch, padding not counted.", out);
  AddModelCounter(models, &M::executions, "belfry_executions_total", "Batches run on a card.",
                  out);
  AddModelCounter(models, &M::executed_rows, "belfry_executed_rows_total",
                  "Real rows of the batches run on a card.", out);
  AddModelCounter(models, &M::padded_rows, "belfry_padded_rows_total",
                  "Rows run on a card that were only padding.", out);
  AddModelCounter(models, &M::expired_before_execution, "belfry_expired_total",
                  "Requests whose deadline passed before a card ran them.", out);
  AddModelCounter(models, &M::cancelled_before_execution, "belfry_cancelled_total",
                  "Requests cancelled by the client before a card ran them.", out);
  AddModelCounter(models, &M::retried, "belfry_retried_total",
                  "Requests run again after the card that had them was lost.", out);
  AddModelGauge(models, &M::in_flight, "belfry_requests_in_flight",
                "Requests accepted and not yet answered.", out);
  AddModelGauge(models, &M::queue_depth, "belfry_queue_depth", "Requests that wait for a card.",
                out);
  AddOldestAge(models, now, out);
}

void AddRejected(const std::array<Counter, 17>& by_code, Families& out) {
  Builder family(out, MetricType::Counter, "belfry_rejected_requests_total",
                 "Requests refused before they could be put down to a served version.");
  for (size_t code = 1; code < by_code.size(); ++code) {
    const uint64_t value = by_code[code].Value();
    if (value != 0 || AlwaysShown(code)) {
      family.Value({{"code", CodeName(code)}}, static_cast<double>(value));
    }
  }
}

void AddCardFamilies(const std::vector<CardSample>& cards, Families& out) {
  const auto counter = [&](std::string name, std::string help, auto value) {
    Builder family(out, MetricType::Counter, std::move(name), std::move(help));
    for (const CardSample& c : cards) {
      family.Value({{"card", c.card}, {"driver", c.driver}}, static_cast<double>(value(c)));
    }
  };
  using C = const CardSample&;
  counter("belfry_card_busy_seconds_total", "Time in which the card ran batches.",
          [](C c) { return c.busy_seconds; });
  counter("belfry_card_batches_total", "Batches that the card finished.",
          [](C c) { return c.batches; });
  counter("belfry_card_restarts_total", "Times that the card's process was started again.",
          [](C c) { return c.restarts; });
  counter("belfry_card_modelled_cycles_total",
          "Cycles that the batches would take on the modelled card; 0 without a model.",
          [](C c) { return c.cycles; });
  {
    Builder family(out, MetricType::Gauge, "belfry_card_state",
                   "1 for the state that the card is in, 0 for the others.");
    for (const CardSample& c : cards) AddStateSet(family, {{"card", c.card}}, c.state, kCardStates);
  }
  Builder family(out, MetricType::Gauge, "belfry_card_memory_bytes",
                 "Card memory: in use, and the budget.");
  for (const CardSample& c : cards) {
    const Labels card = {{"card", c.card}};
    family.Value(With(card, "kind", "used"), static_cast<double>(c.memory_used));
    family.Value(With(card, "kind", "total"), static_cast<double>(c.memory_total));
  }
}

void AddVersionFamilies(const std::vector<VersionSample>& versions, Families& out) {
  Builder family(out, MetricType::Gauge, "belfry_model_state",
                 "1 for the state that the version is in, 0 for the others.");
  for (const VersionSample& v : versions) {
    AddStateSet(family, {{"model", v.model}, {"version", v.version}}, v.state, kVersionStates);
  }
}

void AddCacheFamilies(const std::map<std::string, std::shared_ptr<TargetFigures>>& targets,
                      const CacheFigures& cache, Families& out) {
  const auto counter = [&](std::string name, std::string help, Counter TargetFigures::*figure) {
    Builder family(out, MetricType::Counter, std::move(name), std::move(help));
    for (const auto& [target, f] : targets) {
      family.Value({{"target", target}}, static_cast<double>(((*f).*figure).Value()));
    }
  };
  counter("belfry_cache_hits_total", "Artifacts found in the cache, sums verified.",
          &TargetFigures::hits);
  counter("belfry_cache_misses_total", "Artifacts asked for that the cache did not hold.",
          &TargetFigures::misses);
  {
    Builder family(out, MetricType::Counter, "belfry_compiles_total",
                   "Compiles that ended, by result (ok, failed).");
    for (const auto& [target, f] : targets) {
      const Labels label = {{"target", target}};
      family.Value(With(label, "result", "ok"), static_cast<double>(f->compiled.Value()));
      family.Value(With(label, "result", "failed"), static_cast<double>(f->failed.Value()));
    }
  }
  {
    Builder family(out, MetricType::Histogram, "belfry_compile_duration_seconds",
                   "Time of one compile, failed ones included.");
    for (const auto& [target, f] : targets) {
      family.Observations({{"target", target}}, f->compile_seconds);
    }
  }
  const auto plain = [&out](MetricType type, std::string name, std::string help, uint64_t value) {
    Builder(out, type, std::move(name), std::move(help)).Value({}, static_cast<double>(value));
  };
  plain(MetricType::Counter, "belfry_cache_evictions_total",
        "Artifacts removed to keep the cache under its quota.", cache.evictions);
  plain(MetricType::Counter, "belfry_cache_evicted_bytes_total", "Bytes of the removed artifacts.",
        cache.evicted_bytes);
  plain(MetricType::Gauge, "belfry_cache_bytes", "Bytes that the artifact cache holds.",
        cache.bytes);
}

void AddProcessFamilies(Families& out) {
  const std::optional<ProcessSample> sample = SampleProcess();
  if (!sample) return;
  const auto add = [&out](MetricType type, std::string name, std::string help, double value) {
    Builder(out, type, std::move(name), std::move(help)).Value({}, value);
  };
  add(MetricType::Counter, "process_cpu_seconds_total", "User and system CPU time.",
      sample->cpu_seconds);
  add(MetricType::Gauge, "process_resident_memory_bytes", "Resident memory.",
      static_cast<double>(sample->resident_bytes));
  add(MetricType::Gauge, "process_virtual_memory_bytes", "Virtual memory.",
      static_cast<double>(sample->virtual_bytes));
  add(MetricType::Gauge, "process_open_fds", "Open file descriptors.",
      static_cast<double>(sample->open_fds));
  add(MetricType::Gauge, "process_max_fds", "Limit of open file descriptors.", sample->max_fds);
  add(MetricType::Gauge, "process_start_time_seconds", "Start time since the epoch.",
      sample->start_time_seconds);
  add(MetricType::Gauge, "process_threads", "Threads.", static_cast<double>(sample->threads));
}

void AddBuildInfo(Families& out) {
  const std::string revision = BELFRY_REVISION;
  Builder(out, MetricType::Gauge, "belfry_build_info", "Always 1; the labels tell what runs.")
      .Value({{"version", BELFRY_VERSION}, {"revision", revision.empty() ? "unknown" : revision}},
             1);
}

}  // namespace belfry::telemetry
