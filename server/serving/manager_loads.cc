// What is asked of the manager from outside: load, unload, wait.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "device/channel/text.h"
#include "server/serving/manager_impl.h"
#include "server/serving/model_dir.h"
#include "server/serving/names.h"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

bool SameFile(const Origin& a, const Origin& b) {
  return a.builtin == b.builtin && a.files.model_path == b.files.model_path &&
         a.stamp.device == b.stamp.device && a.stamp.inode == b.stamp.inode &&
         a.stamp.bytes == b.stamp.bytes && a.stamp.mtime_ns == b.stamp.mtime_ns;
}

absl::Status OtherBytes(const std::string& model, int64_t number, const std::string& path,
                        const std::string& known, const std::string& found) {
  return absl::AlreadyExistsError(absl::StrCat(
      "model '", model, "' version ", number, " is known with other bytes: '",
      telemetry::Sanitize(path, 512), "' has sha256 ", found, ", it was loaded from ", known,
      "; a version never changes: give the new file a new number"));
}

}  // namespace

void Manager::Impl::Start() {
  std::vector<std::pair<std::string, int64_t>> asked;
  if (const auto number = Admit({.model = kEcho, .version = 1}, kEcho); number.ok()) {
    asked.emplace_back(kEcho, *number);
  }
  ModelDirListing listing;
  if (!options_.model_dir.empty()) {
    auto listed = ListModelDir(options_.model_dir);
    if (listed.ok()) listing = *std::move(listed);
    if (!listed.ok()) listing.faults.emplace_back(StdView(listed.status().message()));
  }
  auto& found = listing.found;
  for (size_t i = 0; i < found.size(); ++i) {
    const bool newest = i + 1 == found.size() || found[i + 1].model != found[i].model;
    if (options_.policy == VersionPolicy::kLatest && !newest) continue;
    const auto number = Admit(found[i], "");
    if (number.ok()) asked.emplace_back(found[i].model, *number);
    if (!number.ok()) listing.faults.emplace_back(StdView(number.status().message()));
  }
  for (const std::string& fault : listing.faults) {
    telemetry::LogWarning("not a model", {{"folder", options_.model_dir}, {"reason", fault}});
  }
  absl::MutexLock lock(&mutex_);
  for (const auto& [model, number] : asked) {
    required_.insert(model);
    if (const VersionSlot* slot = table_.Find(model, number)) awaited_.push_back(slot->version);
  }
  started_ = true;
}

absl::StatusOr<int64_t> Manager::Impl::Admit(ModelFiles files, const std::string& builtin) {
  Origin origin{.builtin = builtin, .files = std::move(files)};
  const std::string& path = origin.files.model_path;
  if (builtin.empty()) {
    auto stamp = rooms_.files->Stat(path);
    if (!stamp.ok()) return stamp.status();
    origin.stamp = *stamp;
  }
  std::string known;
  int64_t& number = origin.files.version;
  {
    absl::MutexLock lock(&mutex_);
    if (draining_) return absl::UnavailableError(kServerDrains);
    if (number == 0) number = table_.NextNumber(origin.files.model);
    auto compare = DigestToCompare(origin, number);
    if (!compare.ok()) return compare.status();
    if (compare->empty()) return AdmitLocked(origin, number);
    known = *std::move(compare);
  }
  const auto found = rooms_.files->Sha256File(path);
  if (!found.ok()) return found.status();
  absl::MutexLock lock(&mutex_);
  if (draining_) return absl::UnavailableError(kServerDrains);
  if (*found == known) return AdmitLocked(origin, number);
  return OtherBytes(origin.files.model, number, path, known, *found);
}

absl::StatusOr<std::string> Manager::Impl::DigestToCompare(const Origin& origin, int64_t number) {
  const std::string& model = origin.files.model;
  const VersionSlot* slot = table_.Find(model, number);
  if (slot == nullptr) return table_.ForgottenDigest(VersionLabel(model, number));
  if (SameFile(slot->version->origin(), origin)) return std::string();
  const VersionStatus status = slot->version->Status();
  if (!status.sha256.empty()) return status.sha256;
  // Nobody has read the former file; if nobody does now, nothing was promised.
  if (status.state == VersionState::kFailed || status.state == VersionState::kUnloaded) {
    return std::string();
  }
  return absl::AbortedError(absl::StrCat("model '", model, "' version ", number,
                                         " is just being loaded from '",
                                         telemetry::Sanitize(status.path, 512),
                                         "'; try again when that has ended"));
}

absl::StatusOr<int64_t> Manager::Impl::AdmitLocked(const Origin& origin, int64_t number) {
  const std::string& model = origin.files.model;
  VersionSlot* slot = table_.Find(model, number);
  bool starts = true;
  if (slot != nullptr) {
    starts = table_.Ask(*slot, origin);
  } else {
    CrashWindow crashes(std::max(1, options_.quarantine_crashes),
                        absl::ToInt64Nanoseconds(options_.quarantine_window));
    auto version = std::make_shared<Version>(model, number, origin, crashes, catalog_);
    const std::string digest = table_.ForgottenDigest(version->label());
    version->Edit([&](VersionStatus& status) { status.sha256 = digest; });
    table_.Add(std::move(version));
  }
  if (starts && options_.policy == VersionPolicy::kLatest) table_.Supersede(model, number);
  Reconcile(model);
  return number;
}

bool Manager::Impl::ServesHigher(const std::string& model, int64_t number) {
  absl::MutexLock lock(&mutex_);
  const auto views = table_.Views(model);
  return std::any_of(views.begin(), views.end(), [&](const VersionView& view) {
    return view.number > number && view.wish == Wish::kServe &&
           view.state == VersionState::kReady;
  });
}

absl::Status Manager::Impl::LoadModel(const std::string& model) {
  if (auto status = CheckModelName(model); !status.ok()) return status;
  if (model == kEcho) return Admit({.model = kEcho, .version = 1}, kEcho).status();
  ModelDirListing listing;
  if (!options_.model_dir.empty()) {
    auto listed = ListModelDir(options_.model_dir, model);
    if (!listed.ok()) return listed.status();
    listing = *std::move(listed);
  }
  if (listing.found.empty()) return LoadKnown(model, listing.faults);
  if (options_.policy == VersionPolicy::kLatest) {
    const ModelFiles newest = listing.found.back();
    // Loaded by path, newer than the folder: there is nothing new.
    if (ServesHigher(model, newest.version)) return absl::OkStatus();
    return Admit(newest, "").status();
  }
  absl::Status first;
  for (const ModelFiles& files : listing.found) first.Update(Admit(files, "").status());
  return first;
}

absl::Status Manager::Impl::LoadKnown(const std::string& model,
                                      const std::vector<std::string>& faults) {
  ModelFiles files;
  {
    absl::MutexLock lock(&mutex_);
    VersionTable::Versions* versions = table_.Model(model);
    if (versions != nullptr && !versions->empty()) {
      files = versions->rbegin()->second.version->origin().files;
    }
  }
  if (files.model.empty()) {
    const std::string why = faults.empty() ? "" : absl::StrCat(": ", absl::StrJoin(faults, "; "));
    return absl::NotFoundError(
        absl::StrCat("there is no model '", model, "' in the model folder", why));
  }
  return Admit(std::move(files), "").status();
}

absl::StatusOr<std::pair<std::string, std::string>> Manager::Impl::LoadPath(
    const std::string& path, const std::string& model, int64_t version) {
  if (version < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("version: got ", version, ", expected a number from 1 on, or 0"));
  }
  auto files = roots_.Find(path);
  if (!files.ok()) return files.status();
  if (!model.empty()) files->model = model;
  if (version > 0) files->version = version;
  if (files->model.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", telemetry::Sanitize(path, 512),
                     "' does not lie in NAME/VERSION/: a name is needed"));
  }
  if (auto status = CheckModelName(files->model); !status.ok()) return status;
  if (files->model == kEcho) {
    return absl::InvalidArgumentError("'echo' is the name of the built-in model");
  }
  const std::string name = files->model;
  const auto number = Admit(*std::move(files), "");
  if (!number.ok()) return number.status();
  return std::pair(name, std::to_string(*number));
}

absl::Status Manager::Impl::Unload(const std::string& model, const std::string& version) {
  absl::MutexLock lock(&mutex_);
  VersionTable::Versions* versions = table_.Model(model);
  if (!version.empty() || versions == nullptr) {
    // For the error that names what there is, too.
    const auto found = table_.Lookup(model, version.empty() ? "1" : version);
    if (!found.ok()) return found.status();
  }
  for (auto& [number, slot] : *versions) {
    if (!version.empty() && std::to_string(number) != version) continue;
    slot.wish = Wish::kGone;
    slot.again = false;
  }
  Reconcile(model);
  return absl::OkStatus();
}

absl::StatusOr<VersionPtr> Manager::Impl::Lookup(const std::string& model,
                                                 const std::string& version) {
  absl::MutexLock lock(&mutex_);
  return table_.Lookup(model, version);
}

absl::StatusOr<VersionStatus> Manager::Impl::Wait(const std::string& model,
                                                  const std::string& version,
                                                  absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  const auto found = Lookup(model, version);
  if (!found.ok()) return found.status();
  const auto settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    const VersionSlot* slot = table_.Find(model, (*found)->number());
    return slot == nullptr || !slot->again;
  };
  do {
    if (!(*found)->AwaitSettled(deadline - absl::Now())) break;
    // It may be about to start anew.
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithDeadline(absl::Condition(&settled), deadline)) break;
    VersionStatus status = (*found)->Status();
    if (IsSettled(status.state)) return status;
  } while (absl::Now() < deadline);
  return absl::DeadlineExceededError(absl::StrCat("model '", model, "' version ", version,
                                                  " is still ",
                                                  AbslView(VersionStateName((*found)->state()))));
}

}  // namespace belfry::serving
