// Which piece of work a card is busy with, and since when, as far as the front
// end can know it without believing the card.
#ifndef BELFRY_SERVER_CARDS_WATCHDOG_H_
#define BELFRY_SERVER_CARDS_WATCHDOG_H_

#include <cstdint>
#include <optional>
#include <span>

#include "server/base/clock.h"

namespace belfry::cards {

struct WorkItem {
  uint64_t sequence = 0;  // order of submission
  MonoNs submitted = 0;
  MonoNs limit = 0;  // <= 0: none
};

struct RunningItem {
  size_t index = 0;
  uint64_t sequence = 0;
  MonoNs since = 0;
  MonoNs deadline = kNever;
};

// A card works its items off one after the other in the order of submission. So
// the oldest is the running one, and it runs since it was submitted or since
// the last answer came, whichever is later: time spent waiting behind another
// item does not count against it. nullopt if there is nothing to do.
inline std::optional<RunningItem> FindRunning(std::span<const WorkItem> items,
                                              MonoNs last_answer) {
  if (items.empty()) return std::nullopt;
  RunningItem out;
  for (size_t i = 1; i < items.size(); ++i) {
    if (items[i].sequence < items[out.index].sequence) out.index = i;
  }
  const WorkItem& item = items[out.index];
  out.sequence = item.sequence;
  out.since = item.submitted > last_answer ? item.submitted : last_answer;
  if (item.limit > 0 && __builtin_add_overflow(out.since, item.limit, &out.deadline)) {
    out.deadline = kNever;
  }
  return out;
}

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_WATCHDOG_H_
