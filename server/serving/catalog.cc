#include "server/serving/catalog.h"

#include <atomic>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/cord.h"
#include "absl/synchronization/mutex.h"
#include "device/channel/text.h"
#include "server/serving/catalog_snapshot.h"
#include "server/serving/names.h"

namespace belfry::serving {
namespace {

constexpr char kRetiredUrl[] = "belfry/retired-version";

// More swaps than that during one look-up are not a race but a fault.
constexpr int kMostRounds = 16;

using SnapshotPtr = std::shared_ptr<const CatalogSnapshot>;

// The snapshot that this thread saw last, of whatever catalog: a process has
// one (tests have several, one after the other).
struct Seen {
  uint64_t catalog = 0;  // a number and not an address, which may be used again
  uint64_t generation = 0;
  SnapshotPtr snapshot;
};
thread_local Seen t_seen;

std::atomic<uint64_t> g_next_catalog{1};

}  // namespace

absl::Status RetiredStatus(std::string_view why) {
  absl::Status status = absl::UnavailableError(AbslView(why));
  status.SetPayload(kRetiredUrl, absl::Cord("1"));
  return status;
}

bool IsRetired(const absl::Status& status) {
  return !status.ok() && status.GetPayload(kRetiredUrl).has_value();
}

class Catalog::Impl {
 public:
  // The snapshot of the moment. The reference is good until this thread's next
  // call.
  const SnapshotPtr& Current() const {
    const uint64_t generation = generation_.load(std::memory_order_acquire);
    if (t_seen.catalog == id_ && t_seen.generation == generation) return t_seen.snapshot;
    SnapshotPtr newer;
    {
      absl::ReaderMutexLock lock(&swap_mutex_);
      newer = current_;
    }
    t_seen.catalog = id_;
    t_seen.generation = newer->generation;
    t_seen.snapshot.swap(newer);
    return t_seen.snapshot;  // the old one goes with 'newer', outside the lock
  }

  // Replaces the snapshot by what 'change' makes of a copy of it.
  void Update(absl::FunctionRef<void(CatalogSnapshot&)> change) {
    absl::MutexLock writer(&writer_mutex_);
    SnapshotPtr old;
    {
      absl::ReaderMutexLock lock(&swap_mutex_);
      old = current_;
    }
    auto next = std::make_shared<CatalogSnapshot>(*old);
    change(*next);
    const uint64_t generation = ++next->generation;
    {
      absl::MutexLock lock(&swap_mutex_);
      current_ = std::move(next);
    }
    generation_.store(generation, std::memory_order_release);
  }

 private:
  const uint64_t id_ = g_next_catalog.fetch_add(1, std::memory_order_relaxed);
  std::atomic<uint64_t> generation_{0};
  // Held while a snapshot is made: one writer at a time, no reader.
  absl::Mutex writer_mutex_ ABSL_ACQUIRED_BEFORE(swap_mutex_);
  // Held for the copy of a pointer, by a reader once after each change.
  mutable absl::Mutex swap_mutex_;
  SnapshotPtr current_ ABSL_GUARDED_BY(swap_mutex_) = std::make_shared<CatalogSnapshot>();
};

Catalog::Catalog() : impl_(std::make_unique<Impl>()) {}
Catalog::~Catalog() = default;

absl::StatusOr<EntryPtr> Catalog::Resolve(std::string_view model, std::string_view version) const {
  return impl_->Current()->Resolve(model, version);
}

absl::Status Catalog::WithReady(std::string_view model, std::string_view version,
                                Attempt attempt) const {
  absl::Status status;
  for (int round = 0; round < kMostRounds; ++round) {
    const auto entry = Resolve(model, version);
    if (!entry.ok()) return entry.status();
    status = attempt(*entry);
    if (!IsRetired(status)) return status;
  }
  return status;
}

absl::StatusOr<EntryPtr> Catalog::Find(std::string_view model, std::string_view version) const {
  return impl_->Current()->Find(model, version);
}

std::vector<EntryPtr> Catalog::List() const {
  std::vector<EntryPtr> out;
  for (const auto& [name, model] : impl_->Current()->models) {
    for (const auto& item : model->items) out.push_back(item.entry);
  }
  return out;
}

void Catalog::Put(VersionEntry entry) {
  const auto number = ParseVersionNumber(entry.version);
  if (!number || !IsModelName(entry.model)) return;
  const auto shared = std::make_shared<const VersionEntry>(std::move(entry));
  impl_->Update([&](CatalogSnapshot& snapshot) {
    auto& slot = snapshot.models[shared->model];
    auto model = slot ? std::make_shared<CatalogModel>(*slot) : std::make_shared<CatalogModel>();
    model->Put(*number, shared);
    slot = std::move(model);
  });
}

void Catalog::Remove(const std::string& model, const std::string& version) {
  const auto number = ParseVersionNumber(version);
  if (!number) return;
  impl_->Update([&](CatalogSnapshot& snapshot) {
    const auto found = snapshot.models.find(model);
    if (found == snapshot.models.end()) return;
    auto changed = std::make_shared<CatalogModel>(*found->second);
    changed->Remove(*number);
    if (changed->items.empty()) {
      snapshot.models.erase(found);
    } else {
      found->second = std::move(changed);
    }
  });
}

void Catalog::Drain(std::string_view why) {
  impl_->Update([&](CatalogSnapshot& snapshot) {
    snapshot.draining = true;
    snapshot.draining_why = why;
  });
}

}  // namespace belfry::serving
