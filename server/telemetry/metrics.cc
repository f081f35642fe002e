#include "server/telemetry/metrics.h"

#include <exception>
#include <map>
#include <sstream>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"
#include "prometheus/text_serializer.h"
#include "server/telemetry/families.h"

namespace belfry::telemetry {

// The collectable that prometheus-cpp asks at each scrape. The mutex guards the
// maps and the sources, never a recording: those go to the figures directly.
class Metrics::Impl final : public prometheus::Collectable {
 public:
  explicit Impl(const Clock& clock) : clock_(clock) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

  std::shared_ptr<TargetFigures> Target(const std::string& target) {
    absl::MutexLock lock(&mutex);
    std::shared_ptr<TargetFigures>& figures = targets[target];
    if (figures == nullptr) figures = std::make_shared<TargetFigures>();
    return figures;
  }

  mutable absl::Mutex mutex;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<ModelMetrics>> models
      ABSL_GUARDED_BY(mutex);
  std::map<std::string, std::shared_ptr<TargetFigures>> targets ABSL_GUARDED_BY(mutex);
  CacheFigures cache ABSL_GUARDED_BY(mutex);

  // Held while a source runs, so that after Set…Source(nullptr) the old one is
  // not being called any more and what it refers to may go.
  mutable absl::Mutex source_mutex;
  std::function<std::vector<CardSample>()> cards ABSL_GUARDED_BY(source_mutex);
  std::function<std::vector<VersionSample>()> versions ABSL_GUARDED_BY(source_mutex);

  std::array<Counter, 17> rejected;

 private:
  const Clock& clock_;
};

std::vector<prometheus::MetricFamily> Metrics::Impl::Collect() const {
  std::vector<std::shared_ptr<ModelMetrics>> model_list;
  std::map<std::string, std::shared_ptr<TargetFigures>> target_map;
  CacheFigures cache_now;
  {
    absl::MutexLock lock(&mutex);
    for (const auto& [key, figures] : models) model_list.push_back(figures);
    target_map = targets;
    cache_now = cache;
  }
  std::vector<CardSample> card_list;
  std::vector<VersionSample> version_list;
  {
    absl::MutexLock lock(&source_mutex);
    if (cards) card_list = cards();
    if (versions) version_list = versions();
  }
  Families out;
  AddBuildInfo(out);
  AddModelFamilies(model_list, card_list, clock_.Now(), out);
  AddRejected(rejected, out);
  AddVersionFamilies(version_list, out);
  AddCardFamilies(card_list, out);
  AddCacheFamilies(target_map, cache_now, out);
  AddProcessFamilies(out);
  return out;
}

// The exposer stands apart from Impl: it must go first, while its threads may
// still be collecting.
struct Metrics::Server {
  std::unique_ptr<prometheus::Exposer> exposer;
};

Metrics::Metrics(const Clock& clock)
    : impl_(std::make_shared<Impl>(clock)), server_(std::make_unique<Server>()) {}

Metrics::~Metrics() { server_.reset(); }

std::shared_ptr<ModelMetrics> Metrics::ForModel(const std::string& model,
                                                const std::string& version) {
  absl::MutexLock lock(&impl_->mutex);
  std::shared_ptr<ModelMetrics>& figures = impl_->models[{model, version}];
  if (figures == nullptr) {
    figures = std::make_shared<ModelMetrics>();
    figures->model = model;
    figures->version = version;
  }
  return figures;
}

void Metrics::ForgetModel(const std::string& model, const std::string& version) {
  absl::MutexLock lock(&impl_->mutex);
  impl_->models.erase({model, version});
}

void Metrics::SetCardSource(std::function<std::vector<CardSample>()> source) {
  absl::MutexLock lock(&impl_->source_mutex);
  impl_->cards = std::move(source);
}

void Metrics::SetVersionSource(std::function<std::vector<VersionSample>()> source) {
  absl::MutexLock lock(&impl_->source_mutex);
  impl_->versions = std::move(source);
}

void Metrics::CountRejected(absl::StatusCode code) {
  const size_t index = static_cast<size_t>(code);
  // A number that is no canonical code counts as UNKNOWN.
  impl_->rejected[index < impl_->rejected.size() ? index : 2].Add();
}

void Metrics::CacheHit(const std::string& target) { impl_->Target(target)->hits.Add(); }
void Metrics::CacheMiss(const std::string& target) { impl_->Target(target)->misses.Add(); }

void Metrics::CacheEvicted(uint64_t bytes) {
  absl::MutexLock lock(&impl_->mutex);
  ++impl_->cache.evictions;
  impl_->cache.evicted_bytes += bytes;
}

void Metrics::SetCacheBytes(uint64_t bytes) {
  absl::MutexLock lock(&impl_->mutex);
  impl_->cache.bytes = bytes;
}

void Metrics::CompileDone(const std::string& target, bool ok, double seconds) {
  const std::shared_ptr<TargetFigures> figures = impl_->Target(target);
  (ok ? figures->compiled : figures->failed).Add();
  figures->compile_seconds.Observe(seconds);
}

absl::Status Metrics::Listen(const std::string& address) {
  if (server_->exposer != nullptr) {
    return absl::FailedPreconditionError("the metrics server listens already");
  }
  try {
    // civetweb: a client that sends nothing loses its thread after the timeout.
    // A scrape's request is one packet, so a second is plenty, and with eight
    // threads it takes many silent clients to hold up a scrape for long.
    server_->exposer = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", address, "num_threads", "8",
                                 "request_timeout_ms", "1000"});
    server_->exposer->RegisterCollectable(impl_);
  } catch (const std::exception& e) {
    server_->exposer.reset();
    return absl::UnavailableError(absl::StrCat("cannot listen for metrics on '", address,
                                               "': ", e.what(),
                                               "; expected a free HOST:PORT of this host"));
  }
  return absl::OkStatus();
}

std::vector<int> Metrics::ListeningPorts() const {
  return server_->exposer == nullptr ? std::vector<int>{} : server_->exposer->GetListeningPorts();
}

std::string Metrics::Render() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, impl_->Collect());
  return std::move(out).str();
}

}  // namespace belfry::telemetry
