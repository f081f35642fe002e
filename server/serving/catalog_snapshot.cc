#include "server/serving/catalog_snapshot.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "server/serving/names.h"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

constexpr size_t kMostNames = 20;       // that an error lists
constexpr size_t kMostReason = 512;     // bytes of a reason that a client sees

// "a, b, c and 12 more"
template <typename Range, typename NameOf>
std::string ListNames(const Range& range, NameOf name_of) {
  std::string out;
  size_t listed = 0;
  for (const auto& element : range) {
    if (listed++ == kMostNames) break;
    absl::StrAppend(&out, out.empty() ? "" : ", ", name_of(element));
  }
  if (range.size() > kMostNames) absl::StrAppend(&out, " and ", range.size() - kMostNames, " more");
  return out;
}

// The first line: what follows (a compiler's log) is for those who run the
// server.
std::string StateAndReason(const VersionEntry& entry) {
  std::string out(VersionStateName(entry.state));
  if (entry.reason.empty()) return out;
  const std::string_view line = std::string_view(entry.reason).substr(0, entry.reason.find('\n'));
  absl::StrAppend(&out, ": ", telemetry::Sanitize(line, kMostReason));
  return out;
}

std::string VersionsThatExist(const CatalogModel& model) {
  if (model.items.empty()) return "it has none";
  return absl::StrCat("it has ", ListNames(model.items, [](const CatalogModel::Item& item) {
                        return std::to_string(item.number);
                      }));
}

absl::Status BadVersion(std::string_view model, std::string_view version) {
  return absl::InvalidArgumentError(
      absl::StrCat("model '", AbslView(model), "': version '", telemetry::Sanitize(version, 128),
                   "': expected a number from 1 on, '@' and an alias, or nothing"));
}

absl::StatusOr<EntryPtr> ByAlias(std::string_view name, const CatalogModel& model,
                                 std::string_view alias) {
  if (!IsModelName(alias)) return BadVersion(name, absl::StrCat("@", AbslView(alias)));
  const auto found = model.aliases.find(alias);
  const EntryPtr* entry =
      found == model.aliases.end() ? nullptr : model.ByNumber(found->second);
  if (entry != nullptr) return *entry;
  const std::string known = ListNames(model.aliases, [](const auto& a) { return "@" + a.first; });
  return absl::NotFoundError(absl::StrCat("model '", AbslView(name), "' has no alias '@",
                                          AbslView(alias), "'; it has ",
                                          known.empty() ? "none" : known));
}

absl::StatusOr<EntryPtr> ByText(std::string_view name, const CatalogModel& model,
                                std::string_view version) {
  if (version[0] == '@') return ByAlias(name, model, version.substr(1));
  const auto number = ParseVersionNumber(version);
  if (!number) return BadVersion(name, version);
  if (const EntryPtr* entry = model.ByNumber(*number)) return *entry;
  return absl::NotFoundError(absl::StrCat("model '", AbslView(name), "' has no version ", *number,
                                          "; ", VersionsThatExist(model)));
}

absl::Status NotReady(const VersionEntry& entry) {
  return absl::FailedPreconditionError(absl::StrCat("model '", entry.model, "' version ",
                                                    entry.version, " is ", StateAndReason(entry)));
}

absl::Status NoneReady(std::string_view name, const CatalogModel& model) {
  const VersionEntry& newest = *model.items.back().entry;
  return absl::FailedPreconditionError(
      absl::StrCat("model '", AbslView(name), "' has no READY version; version ", newest.version,
                   " is ", StateAndReason(newest)));
}

}  // namespace

const EntryPtr* CatalogModel::ByNumber(int64_t number) const {
  const auto at = std::lower_bound(items.begin(), items.end(), number,
                                   [](const Item& i, int64_t n) { return i.number < n; });
  return at != items.end() && at->number == number ? &at->entry : nullptr;
}

void CatalogModel::Put(int64_t number, EntryPtr entry) {
  const auto at = std::lower_bound(items.begin(), items.end(), number,
                                   [](const Item& i, int64_t n) { return i.number < n; });
  if (at != items.end() && at->number == number) {
    at->entry = std::move(entry);
  } else {
    items.insert(at, {number, std::move(entry)});
  }
  ChooseNewest();
}

void CatalogModel::Remove(int64_t number) {
  items.erase(std::remove_if(items.begin(), items.end(),
                             [&](const Item& i) { return i.number == number; }),
              items.end());
  ChooseNewest();
}

void CatalogModel::ChooseNewest() {
  newest_ready = nullptr;
  for (const Item& item : items) {
    if (item.entry->state == VersionState::kReady) newest_ready = item.entry;
  }
}

absl::StatusOr<const CatalogModel*> CatalogSnapshot::Model(std::string_view name) const {
  const auto found = models.find(name);
  if (found != models.end()) return found->second.get();
  // Looked at only now: what is in the table is well-formed.
  if (auto status = CheckModelName(name); !status.ok()) return status;
  return absl::NotFoundError(absl::StrCat(
      "there is no model '", AbslView(name), "'; there ",
      models.empty() ? "is none at all"
                     : "are: " + ListNames(models, [](const auto& m) { return m.first; })));
}

absl::StatusOr<EntryPtr> CatalogSnapshot::Resolve(std::string_view name,
                                                  std::string_view version) const {
  if (draining) return absl::UnavailableError(draining_why);
  const auto model = Model(name);
  if (!model.ok()) return model.status();
  if (version.empty()) {
    if ((*model)->newest_ready != nullptr) return (*model)->newest_ready;
    return NoneReady(name, **model);
  }
  auto entry = ByText(name, **model, version);
  if (entry.ok() && (*entry)->state != VersionState::kReady) return NotReady(**entry);
  return entry;
}

absl::StatusOr<EntryPtr> CatalogSnapshot::Find(std::string_view name,
                                               std::string_view version) const {
  const auto model = Model(name);
  if (!model.ok()) return model.status();
  if (!version.empty()) return ByText(name, **model, version);
  if ((*model)->newest_ready != nullptr) return (*model)->newest_ready;
  return (*model)->items.back().entry;
}

}  // namespace belfry::serving
