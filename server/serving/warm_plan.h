// What a version runs on a card before it takes requests, so that no request
// pays for a first time.
#ifndef BELFRY_SERVER_SERVING_WARM_PLAN_H_
#define BELFRY_SERVER_SERVING_WARM_PLAN_H_

#include <cstdint>
#include <vector>

#include "server/cards/card.h"
#include "server/scheduling/model_queue.h"

namespace belfry::serving {

inline constexpr size_t kMostWarmShapes = 64;

struct WarmStep {
  cards::WarmShape shape;  // empty for a model without symbols
  double cost = 1;         // product of its sizes, to tell how long it may take
};

struct WarmPlan {
  std::vector<WarmStep> steps;  // ascending cost
  size_t too_large = 0;         // shapes left out because no slot can hold them
  size_t left_out = 0;          // shapes left out to keep the number bounded
};

// Every bucket of every symbol once, with the other symbols at their smallest;
// where there are no buckets, some sizes from the smallest to the largest.
// Not every combination: the compiled code is one for all sizes, so that what a
// first run pays for (folding constants, touching memory, a library's choice of
// kernel) hangs on single sizes, while combinations cost seconds (24 of them
// 20 s for a small transformer). Nothing for a model that takes any tensor.
WarmPlan PlanWarmup(const scheduling::QueueOptions& queue, size_t input_capacity,
                    size_t output_capacity);

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_WARM_PLAN_H_
