#include "server/serving/warm_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "device/channel/layout.h"
#include "server/base/checked.h"

namespace belfry::serving {
namespace {

std::vector<int64_t> Within(std::initializer_list<int64_t> sizes, const SymbolRange& range,
                            int64_t largest) {
  const int64_t low = std::max<int64_t>(1, range.min);
  const int64_t high = std::max(low, std::min(range.max, largest));
  std::set<int64_t> kept;
  for (int64_t size : sizes) kept.insert(std::clamp(size, low, high));
  return {kept.begin(), kept.end()};
}

std::vector<int64_t> BatchSizes(const scheduling::BatchLimits& limits, const SymbolRange& range) {
  if (limits.exact_executed > 0) return {limits.exact_executed};
  if (!limits.buckets.empty()) return limits.buckets;
  const int64_t largest = std::max(limits.max_rows, limits.min_executed);
  return Within({1, 2, 8, 64, largest}, range, largest);
}

std::vector<int64_t> SizesOf(const std::string& symbol, const SymbolRange& range,
                             const scheduling::QueueOptions& queue) {
  if (symbol == queue.signature.batch_symbol && queue.signature.batchable) {
    return BatchSizes(queue.limits, range);
  }
  const auto buckets = queue.buckets.find(symbol);
  if (buckets != queue.buckets.end() && !buckets->second.empty()) return buckets->second;
  return Within({1, 16, 128}, range, INT64_MAX);
}

// Bytes in a slot's arena, nullopt where that overflows. A dimension that only
// the compiled code can evaluate counts as 1: the card refuses what does not
// fit.
std::optional<int64_t> ArenaBytes(const std::vector<TensorSpec>& tensors,
                                  const std::map<std::string, int64_t>& symbols) {
  int64_t total = 0;
  for (const TensorSpec& tensor : tensors) {
    std::vector<int64_t> dims;
    for (const Dim& dim : tensor.dims) {
      const auto symbol = symbols.find(dim.text);
      if (dim.kind == Dim::Kind::kFixed) dims.push_back(dim.size);
      if (dim.kind == Dim::Kind::kSymbol && symbol != symbols.end()) dims.push_back(symbol->second);
    }
    const auto elements = CheckedElementCount(dims);
    const auto size = static_cast<int64_t>(std::max<size_t>(1, DataTypeSize(tensor.dtype)));
    const auto bytes = elements ? CheckedMul(*elements, size) : std::nullopt;
    const auto sum = bytes ? CheckedAdd(total, *bytes) : std::nullopt;
    const auto padded =
        sum ? CheckedAdd(*sum, static_cast<int64_t>(channel::kTensorAlign) - 1) : std::nullopt;
    if (!padded) return std::nullopt;
    total = *padded;
  }
  return total;
}

bool Fits(const std::vector<TensorSpec>& tensors, const cards::WarmShape& shape, size_t capacity) {
  const auto bytes = ArenaBytes(tensors, {shape.begin(), shape.end()});
  return bytes && static_cast<uint64_t>(*bytes) <= capacity;
}

WarmStep With(WarmStep step, const std::string& symbol, int64_t size) {
  step.shape.emplace_back(symbol, size);
  step.cost *= static_cast<double>(size);
  return step;
}

// Keeps the cheapest, the dearest and an even choice of what lies between.
void Thin(std::vector<WarmStep>& steps) {
  if (steps.size() <= kMostWarmShapes) return;
  std::vector<WarmStep> kept;
  for (size_t i = 0; i < kMostWarmShapes; ++i) {
    kept.push_back(std::move(steps[i * (steps.size() - 1) / (kMostWarmShapes - 1)]));
  }
  steps = std::move(kept);
}

}  // namespace

WarmPlan PlanWarmup(const scheduling::QueueOptions& queue, size_t input_capacity,
                    size_t output_capacity) {
  WarmPlan plan;
  const Signature& signature = queue.signature;
  if (signature.any_tensor) return plan;
  std::vector<WarmStep> steps = {WarmStep()};
  for (const auto& [symbol, range] : signature.symbols) {
    const std::vector<int64_t> sizes = SizesOf(symbol, range, queue);
    if (sizes.empty()) continue;
    // The further sizes of this symbol with the smallest of all before it …
    std::vector<WarmStep> more;
    for (size_t i = 1; i < sizes.size(); ++i) more.push_back(With(steps.front(), symbol, sizes[i]));
    // … and its smallest in all that stand already.
    for (WarmStep& step : steps) step = With(std::move(step), symbol, sizes.front());
    std::move(more.begin(), more.end(), std::back_inserter(steps));
  }
  for (WarmStep& step : steps) {
    if (Fits(signature.inputs, step.shape, input_capacity) &&
        Fits(signature.outputs, step.shape, output_capacity)) {
      plan.steps.push_back(std::move(step));
    } else {
      ++plan.too_large;
    }
  }
  std::stable_sort(plan.steps.begin(), plan.steps.end(),
                   [](const WarmStep& a, const WarmStep& b) { return a.cost < b.cost; });
  const size_t fitting = plan.steps.size();
  Thin(plan.steps);
  plan.left_out = fitting - plan.steps.size();
  return plan;
}

}  // namespace belfry::serving
