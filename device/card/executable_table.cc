#include "device/card/executable_table.h"

#include "absl/strings/str_cat.h"

namespace belfry::card {

ExecutableTable::Use& ExecutableTable::Use::operator=(Use&& other) noexcept {
  if (this == &other) return *this;
  Release();
  table_ = std::exchange(other.table_, nullptr);
  entry_ = std::exchange(other.entry_, nullptr);
  return *this;
}

ExecutableTable::Use ExecutableTable::Use::Again() const {
  if (entry_ == nullptr) return Use();
  absl::MutexLock lock(&table_->mutex_);
  ++entry_->uses;
  return Use(table_, entry_);
}

void ExecutableTable::Use::Release() {
  if (entry_ == nullptr) return;
  absl::MutexLock lock(&table_->mutex_);
  --entry_->uses;  // the lock's release wakes Destroy()
  entry_ = nullptr;
}

absl::Status ExecutableTable::Add(uint32_t id, std::string label,
                                  std::unique_ptr<Executable> executable) {
  auto entry = std::make_unique<Entry>();
  entry->executable = std::move(executable);
  entry->label = std::move(label);
  absl::MutexLock lock(&mutex_);
  if (entries_.try_emplace(id, std::move(entry)).second) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("executable ", id, " is loaded already"));
}

bool ExecutableTable::Contains(uint32_t id) const {
  absl::MutexLock lock(&mutex_);
  return entries_.contains(id);
}

ExecutableTable::Use ExecutableTable::Find(uint32_t id) {
  absl::MutexLock lock(&mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return Use();
  ++it->second->uses;
  return Use(this, it->second.get());
}

absl::Status ExecutableTable::Remove(uint32_t id) {
  std::unique_ptr<Entry> entry;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end()) {
      return absl::NotFoundError(absl::StrCat("executable ", id, " is not loaded"));
    }
    entry = std::move(it->second);
    entries_.erase(it);
  }
  Destroy(std::move(entry));
  return absl::OkStatus();
}

void ExecutableTable::Clear() {
  std::map<uint32_t, std::unique_ptr<Entry>> all;
  {
    absl::MutexLock lock(&mutex_);
    all.swap(entries_);
  }
  for (auto& [id, entry] : all) Destroy(std::move(entry));
}

void ExecutableTable::Destroy(std::unique_ptr<Entry> entry) {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(+[](Entry* e) { return e->uses == 0; }, entry.get()));
  }
  // The entry goes here, without the lock: a driver's unload may take long.
}

}  // namespace belfry::card
