#include "server/cards/residents.h"

#include <algorithm>

namespace belfry::cards {

bool Residents::BeginLoad(ExecutableId id) {
  const auto idle = [this, id]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return !loading_.contains(id); };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&idle));
  if (residents_.contains(id)) return false;
  loading_.insert(id);
  return true;
}

void Residents::EndLoad(ExecutableId id) {
  absl::MutexLock lock(&mu_);
  loading_.erase(id);
}

bool Residents::Remove(ExecutableId id) {
  const auto idle = [this, id]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return !loading_.contains(id); };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&idle));
  return residents_.erase(id) != 0;
}

void Residents::Add(const ExecutableSpec& spec) {
  absl::MutexLock lock(&mu_);
  residents_[spec.id] = Resident{spec, {}, 0};
}

void Residents::AddWarmed(ExecutableId id, std::span<const WarmShape> shapes) {
  absl::MutexLock lock(&mu_);
  const auto it = residents_.find(id);
  if (it == residents_.end()) return;
  std::vector<WarmShape>& warmed = it->second.warmed;
  for (const WarmShape& shape : shapes) {
    if (std::find(warmed.begin(), warmed.end(), shape) == warmed.end()) warmed.push_back(shape);
  }
}

std::optional<Resident> Residents::Find(ExecutableId id) const {
  absl::MutexLock lock(&mu_);
  const auto it = residents_.find(id);
  if (it == residents_.end()) return std::nullopt;
  return it->second;
}

std::optional<Resident> Residents::NextToLoad(const std::set<ExecutableId>& loaded) const {
  absl::MutexLock lock(&mu_);
  for (const auto& [id, resident] : residents_) {
    if (!loaded.contains(id)) return resident;
  }
  return std::nullopt;
}

bool Residents::Strike(ExecutableId id) {
  absl::MutexLock lock(&mu_);
  const auto it = residents_.find(id);
  if (it == residents_.end() || ++it->second.strikes < kMaxStrikes) return false;
  residents_.erase(it);
  return true;
}

void Residents::ClearStrikes(ExecutableId id) {
  absl::MutexLock lock(&mu_);
  if (const auto it = residents_.find(id); it != residents_.end()) it->second.strikes = 0;
}

void Residents::Drop(ExecutableId id) {
  absl::MutexLock lock(&mu_);
  residents_.erase(id);
}

std::vector<std::string> Residents::Labels() const {
  absl::MutexLock lock(&mu_);
  std::vector<std::string> labels;
  for (const auto& [id, resident] : residents_) labels.push_back(resident.spec.label);
  return labels;
}

}  // namespace belfry::cards
