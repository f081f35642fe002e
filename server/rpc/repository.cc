#include "server/rpc/repository.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "device/channel/text.h"
#include "server/serving/version_state.h"
#include "server/telemetry/log.h"

namespace belfry::rpc {
namespace {

using serving::VersionState;

// How often a blocked call looks whether its caller is still there. The end of
// the load itself wakes it at once.
constexpr absl::Duration kLookForCaller = absl::Milliseconds(200);

// The words of the extension. The exact state goes into 'reason'.
std::string_view IndexState(VersionState state) {
  switch (state) {
    case VersionState::kReady:
      return "READY";
    case VersionState::kUploaded:
    case VersionState::kCompiling:
    case VersionState::kCompiled:
    case VersionState::kLoading:
    case VersionState::kWarming:
      return "LOADING";
    case VersionState::kDraining:
      return "UNLOADING";
    case VersionState::kUnloaded:
    case VersionState::kFailed:
      return "UNAVAILABLE";
  }
  return "UNKNOWN";
}

std::string IndexReason(const serving::VersionEntry& entry) {
  if (entry.state == VersionState::kReady) return "";
  std::string reason(serving::VersionStateName(entry.state));
  if (!entry.reason.empty()) absl::StrAppend(&reason, ": ", entry.reason);
  return reason;
}

absl::Status CheckRepositoryName(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("repository_name '", telemetry::Sanitize(name, 128),
                   "': there is one repository, leave the name empty"));
}

template <typename Parameters>
absl::Status CheckParameters(const Parameters& parameters, std::string_view allowed) {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : parameters) {
    if (key != allowed) unknown.push_back(absl::StrCat("'", telemetry::Sanitize(key, 64), "'"));
  }
  if (unknown.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "parameters ", absl::StrJoin(unknown, ", "),
      " are not offered: a model is configured by the model.yaml beside it on the server"));
}

// Waits for 'model/version' in short steps, so that a caller who goes away
// does not hold a thread.
absl::StatusOr<serving::VersionStatus> AwaitEnd(serving::Manager* manager,
                                                const std::string& model,
                                                const std::string& version,
                                                const Cancelled& cancelled) {
  while (true) {
    auto status = manager->Wait(model, version, kLookForCaller);
    if (status.ok() || !absl::IsDeadlineExceeded(status.status())) return status;
    if (cancelled()) return absl::CancelledError("the caller has gone");
  }
}

std::vector<std::string> VersionsOf(const serving::Manager& manager, const std::string& model) {
  std::vector<std::string> versions;
  for (const auto& status : manager.StatusOfAll()) {
    if (status.model == model) versions.push_back(status.version);
  }
  return versions;
}

// A load asked for while the version drains begins when it has drained.
bool OnItsWay(VersionState state) {
  return IndexState(state) == "LOADING" || state == VersionState::kDraining;
}

}  // namespace

absl::Status AwaitReady(serving::Manager* manager, const std::string& model,
                        const std::string& version, const Cancelled& cancelled) {
  const auto status = AwaitEnd(manager, model, version, cancelled);
  if (!status.ok()) return status.status();
  if (status->state == VersionState::kReady) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("model '", model, "' version ", version, " is ",
                   AbslView(serving::VersionStateName(status->state)),
                   status->reason.empty() ? "" : ": ", status->reason));
}

absl::Status AwaitUnloaded(serving::Manager* manager, const std::string& model,
                           const std::string& version, const Cancelled& cancelled) {
  while (true) {
    const auto status = AwaitEnd(manager, model, version, cancelled);
    if (absl::IsNotFound(status.status())) return absl::OkStatus();
    if (!status.ok()) return status.status();
    if (status->state == VersionState::kUnloaded || status->state == VersionState::kFailed) {
      return absl::OkStatus();
    }
    // READY: loaded again by someone else while we waited.
    return absl::AbortedError(
        absl::StrCat("model '", model, "' version ", version, " has been loaded again"));
  }
}

absl::Status Repository::Index(const inference::RepositoryIndexRequest& request,
                               inference::RepositoryIndexResponse* response) const {
  if (auto status = CheckRepositoryName(request.repository_name()); !status.ok()) return status;
  for (const auto& entry : catalog_->List()) {
    if (request.ready() && entry->state != VersionState::kReady) continue;
    auto* model = response->add_models();
    model->set_name(entry->model);
    model->set_version(entry->version);
    model->set_state(std::string(IndexState(entry->state)));
    model->set_reason(IndexReason(*entry));
  }
  return absl::OkStatus();
}

absl::Status Repository::Load(const inference::RepositoryModelLoadRequest& request,
                              const Cancelled& cancelled) {
  if (auto status = CheckRepositoryName(request.repository_name()); !status.ok()) return status;
  if (auto status = CheckParameters(request.parameters(), ""); !status.ok()) return status;
  const std::string& model = request.model_name();
  if (auto status = manager_->LoadModel(model); !status.ok()) return status;
  for (const std::string& version : VersionsOf(*manager_, model)) {
    const auto before = manager_->Status(model, version);
    if (!before.ok() || !OnItsWay(before->state)) continue;
    if (auto status = AwaitReady(manager_, model, version, cancelled); !status.ok()) return status;
  }
  // Nothing was on its way: either it serves, or it has failed meanwhile.
  const auto served = catalog_->Resolve(model, "");
  return served.ok() ? absl::OkStatus() : served.status();
}

absl::Status Repository::Unload(const inference::RepositoryModelUnloadRequest& request,
                                const Cancelled& cancelled) {
  if (auto status = CheckRepositoryName(request.repository_name()); !status.ok()) return status;
  // Stock clients always send it. No model depends on another here.
  if (auto status = CheckParameters(request.parameters(), "unload_dependents"); !status.ok()) {
    return status;
  }
  const std::string& model = request.model_name();
  if (auto status = manager_->Unload(model, ""); !status.ok()) return status;
  for (const std::string& version : VersionsOf(*manager_, model)) {
    if (auto status = AwaitUnloaded(manager_, model, version, cancelled); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace belfry::rpc
