// Builds the metric families of the exposition from plain figures. Every name,
// type, help text and label of Belfry's own metrics stands here (README.md has
// the table); metrics.cc owns the figures.
#ifndef BELFRY_SERVER_TELEMETRY_FAMILIES_H_
#define BELFRY_SERVER_TELEMETRY_FAMILIES_H_

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "prometheus/metric_family.h"
#include "server/base/clock.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/model_metrics.h"

namespace belfry::telemetry {

using Families = std::vector<prometheus::MetricFamily>;

// Figures of the artifact cache for one target.
struct TargetFigures {
  TargetFigures();
  Counter hits, misses, compiled, failed;
  Histogram compile_seconds;
};

struct CacheFigures {
  uint64_t bytes = 0, evictions = 0, evicted_bytes = 0;
};

void AddModelFamilies(const std::vector<std::shared_ptr<ModelMetrics>>& models,
                      const std::vector<CardSample>& cards, MonoNs now, Families& out);
void AddRejected(const std::array<Counter, 17>& by_code, Families& out);
void AddCardFamilies(const std::vector<CardSample>& cards, Families& out);
void AddVersionFamilies(const std::vector<VersionSample>& versions, Families& out);
void AddCacheFamilies(const std::map<std::string, std::shared_ptr<TargetFigures>>& targets,
                      const CacheFigures& cache, Families& out);
void AddProcessFamilies(Families& out);
void AddBuildInfo(Families& out);

}  // namespace belfry::telemetry

#endif  // BELFRY_SERVER_TELEMETRY_FAMILIES_H_
