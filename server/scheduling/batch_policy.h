// Which requests ride in the next batch, and which model's turn it is. Pure
// functions: no clock, no lock, no state; the properties that the tests hold
// them to stand at each.
#ifndef BELFRY_SERVER_SCHEDULING_BATCH_POLICY_H_
#define BELFRY_SERVER_SCHEDULING_BATCH_POLICY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "server/base/clock.h"

namespace belfry::scheduling {

struct BatchLimits {
  int64_t max_rows = 1;          // most real rows of an execution, >= 1
  int64_t min_executed = 1;      // the compiled code needs at least so many
  std::vector<int64_t> buckets;  // executed sizes, ascending; empty: any
  int64_t exact_executed = 0;    // > 0: every execution has this size
  MonoNs delay = 0;              // an incomplete batch may wait so long
};

// How long the oldest of a group may be passed over by more urgent requests.
inline constexpr MonoNs kStarvationNs = 500'000'000;

// A request that waits, as the policies see it.
struct WaitingRequest {
  uint32_t priority = 2;
  MonoNs deadline = kNever;
  uint64_t arrival = 0;  // ascending number
};

// More urgent first: priority, then deadline, then arrival. A total order.
bool MoreUrgent(const WaitingRequest& a, const WaitingRequest& b);

// A group of requests that may be joined, by its most urgent and its oldest.
struct GroupView {
  WaitingRequest urgent;
  MonoNs oldest_enqueued = 0;
  int64_t rows = 0;
};

// Index of the group that is served next; -1 if there is none. The group with
// the most urgent head, unless a group's oldest request has waited longer than
// kStarvationNs: then the one that has waited longest.
// Properties: never picks an empty group; with n groups, each head is served
// after a bounded number of turns whatever arrives.
int ChooseGroup(std::span<const GroupView> groups, MonoNs now);

// Real rows to take from a group that holds 'waiting' rows when memory of a
// slot has room for 'room' rows. Requests may be cut at any row, so this is
// min(waiting, limit): it never falls as 'waiting' grows, never exceeds
// max_rows or what the padded execution leaves room for, and is > 0 whenever
// waiting > 0 and a single row fits.
int64_t ChooseRows(int64_t waiting, int64_t room, const BatchLimits& limits);

// Rows that are executed for 'rows' real ones (rows + padding).
int64_t ExecutedRows(int64_t rows, const BatchLimits& limits);

// When the batch of a group may start: at once if it is full or no delay is
// set, else 'delay' after its oldest request came.
MonoNs ReadyAt(const GroupView& group, const BatchLimits& limits);

// A model with work for a card.
struct ModelView {
  uint32_t priority = 2;      // of its most urgent request
  MonoNs oldest_enqueued = 0;
  double consumed = 0;        // card seconds used so far, over its weight
};

// Index of the model that a free card serves; -1 if there is none. The highest
// priority first (a request that has waited kStarvationNs counts as urgent),
// among equals the one that has consumed least: long-run shares are equal as
// long as each has work.
int ChooseModel(std::span<const ModelView> models, MonoNs now);

}  // namespace belfry::scheduling

#endif  // BELFRY_SERVER_SCHEDULING_BATCH_POLICY_H_
