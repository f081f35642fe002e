// What a card should hold, whatever becomes of its process.
#ifndef BELFRY_SERVER_CARDS_RESIDENTS_H_
#define BELFRY_SERVER_CARDS_RESIDENTS_H_

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/cards/card.h"

namespace belfry::cards {

struct Resident {
  ExecutableSpec spec;
  // Executions that a new process repeats before it serves.
  std::vector<WarmShape> warmed;
  // Processes lost in a row while this one was being loaded again.
  int strikes = 0;
};

// Thread-safe.
class Residents {
 public:
  // A resident with so many strikes is dropped: it, and not chance, kills cards.
  static constexpr int kMaxStrikes = 2;

  // True: the caller shall load it and call EndLoad. False: it is a resident
  // already. Waits while another thread loads the same one.
  bool BeginLoad(ExecutableId id);
  void EndLoad(ExecutableId id);
  // Waits while a thread loads it. False: it was no resident.
  bool Remove(ExecutableId id);

  void Add(const ExecutableSpec& spec);
  void AddWarmed(ExecutableId id, std::span<const WarmShape> shapes);
  std::optional<Resident> Find(ExecutableId id) const;
  bool Contains(ExecutableId id) const { return Find(id).has_value(); }
  // The first that is not in 'loaded'.
  std::optional<Resident> NextToLoad(const std::set<ExecutableId>& loaded) const;
  // Removes it, and returns true, if that was one strike too many.
  bool Strike(ExecutableId id);
  void ClearStrikes(ExecutableId id);
  // For a resident that is lost: does not wait for loads under way.
  void Drop(ExecutableId id);
  std::vector<std::string> Labels() const;

 private:
  mutable absl::Mutex mu_;
  std::map<ExecutableId, Resident> residents_ ABSL_GUARDED_BY(mu_);
  std::set<ExecutableId> loading_ ABSL_GUARDED_BY(mu_);
};

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_RESIDENTS_H_
