#include "server/serving/version_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/serving/names.h"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

constexpr size_t kMostNames = 20;

template <typename Map>
std::string Keys(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [key, value] : map) {
    if (names.size() == kMostNames) {
      names.push_back(absl::StrCat("and ", map.size() - kMostNames, " more"));
      break;
    }
    names.push_back(absl::StrCat(key));
  }
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

bool HasEnded(const VersionSlot& slot) {
  const VersionState state = slot.version->state();
  return slot.busy == 0 &&
         (state == VersionState::kUnloaded || state == VersionState::kFailed);
}

}  // namespace

VersionTable::Versions* VersionTable::Model(std::string_view model) {
  const auto found = models_.find(model);
  return found == models_.end() ? nullptr : &found->second;
}

VersionSlot* VersionTable::Find(std::string_view model, int64_t number) {
  Versions* versions = Model(model);
  if (versions == nullptr) return nullptr;
  const auto found = versions->find(number);
  return found == versions->end() ? nullptr : &found->second;
}

VersionSlot* VersionTable::FindExecutable(cards::ExecutableId executable) {
  if (executable == 0) return nullptr;
  for (auto& [model, versions] : models_) {
    for (auto& [number, slot] : versions) {
      if (slot.version->executable() == executable) return &slot;
    }
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<Version>> VersionTable::Lookup(const std::string& model,
                                                              const std::string& version) {
  if (auto status = CheckModelName(model); !status.ok()) return status;
  const auto number = ParseVersionNumber(version);
  if (!number) {
    return absl::InvalidArgumentError(absl::StrCat("version '", telemetry::Sanitize(version, 128),
                                                   "': expected a number from 1 on"));
  }
  if (const VersionSlot* slot = Find(model, *number)) return slot->version;
  if (const Versions* versions = Model(model)) {
    return absl::NotFoundError(absl::StrCat("model '", model, "' has no version ", *number,
                                            "; it has ", Keys(*versions)));
  }
  return absl::NotFoundError(
      absl::StrCat("there is no model '", model, "'; there are: ", Keys(models_)));
}

int64_t VersionTable::NextNumber(std::string_view model) const {
  const auto found = highest_.find(model);
  if (found == highest_.end()) return 1;
  return found->second == INT64_MAX ? INT64_MAX : found->second + 1;
}

VersionSlot& VersionTable::Add(std::shared_ptr<Version> version) {
  int64_t& highest = highest_[version->model()];
  highest = std::max(highest, version->number());
  VersionSlot& slot = models_[version->model()][version->number()];
  slot = {};
  slot.version = std::move(version);
  return slot;
}

std::string VersionTable::ForgottenDigest(const std::string& label) const {
  const auto found = forgotten_.find(label);
  return found == forgotten_.end() ? "" : found->second;
}

void VersionTable::Supersede(std::string_view model, int64_t number) {
  for (auto& [other, slot] : *Model(model)) {
    if (other < number && slot.wish == Wish::kServe) slot.wish = Wish::kReplaced;
  }
}

bool VersionTable::Ask(VersionSlot& slot, Origin origin) {
  slot.wish = Wish::kServe;
  const VersionState state = slot.version->state();
  if (state == VersionState::kReady) return false;
  if (IsOnItsWay(state) && !slot.version->cancelled()) return false;
  if (slot.version->Renew(origin)) return true;
  slot.again = true;
  slot.origin = std::move(origin);
  return true;
}

std::vector<VersionView> VersionTable::Views(std::string_view model) {
  std::vector<VersionView> views;
  const Versions* versions = Model(model);
  if (versions == nullptr) return views;
  for (const auto& [number, slot] : *versions) {
    views.push_back({.number = number,
                     .state = slot.version->state(),
                     .wish = slot.wish,
                     .busy = slot.busy > 0,
                     .cancelled = slot.version->cancelled()});
  }
  return views;
}

std::vector<std::shared_ptr<Version>> VersionTable::Prune(std::string_view model) {
  std::vector<std::shared_ptr<Version>> forgotten;
  Versions* versions = Model(model);
  if (versions == nullptr) return forgotten;
  size_t ended = 0;
  for (const auto& [number, slot] : *versions) ended += HasEnded(slot) ? 1 : 0;
  for (auto at = versions->begin(); at != versions->end() && ended > kKeepEnded;) {
    if (!HasEnded(at->second)) {
      ++at;
      continue;
    }
    const auto& version = at->second.version;
    const std::string digest = version->Status().sha256;
    if (!digest.empty()) forgotten_[version->label()] = digest;
    forgotten.push_back(version);
    at = versions->erase(at);
    --ended;
  }
  return forgotten;
}

void VersionTable::ForEach(absl::FunctionRef<void(VersionSlot&)> visit) {
  for (auto& [model, versions] : models_) {
    for (auto& [number, slot] : versions) visit(slot);
  }
}

std::vector<std::shared_ptr<Version>> VersionTable::All() const {
  std::vector<std::shared_ptr<Version>> all;
  for (const auto& [model, versions] : models_) {
    for (const auto& [number, slot] : versions) all.push_back(slot.version);
  }
  return all;
}

}  // namespace belfry::serving
