#include "server/serving/loader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "server/serving/load_run.h"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

std::string Name(const Version& version) {
  return absl::StrCat("model '", version.model(), "' version ", version.number());
}

}  // namespace

void Loader::Load(Version& version) {
  const uint64_t attempt = version.attempt();
  const absl::Status status = LoadRun(this, &version, attempt).Run();
  if (status.ok()) return;
  if (version.cancelled(attempt)) {
    CleanUp(version);
    version.End(VersionState::kUnloaded, "unloaded before it was READY", attempt);
    return;
  }
  version.End(VersionState::kFailed, std::string(status.message()), attempt);
  CleanUp(version);
}

void Loader::Drain(Version& version) {
  if (const auto queue = version.queue()) {
    queue->Close(RetiredStatus(absl::StrCat(Name(version), " has been taken out of service")));
    if (!queue->WaitIdle(options_.drain_timeout)) {
      telemetry::LogWarning("version did not drain in time", {{"version", version.label()}});
      rooms_.dispatcher->FailAll(
          queue, absl::UnavailableError(absl::StrCat(
                     Name(version), " was taken out of service before the request could run")));
    }
  }
  CleanUp(version);
  version.Step(VersionState::kDraining, VersionState::kUnloaded);
}

void Loader::FailFast(Version& version, const absl::Status& why) {
  const auto queue = version.queue();
  if (queue == nullptr) return;
  queue->Close(RetiredStatus(StdView(why.message())));
  rooms_.dispatcher->FailAll(queue, why);
  rooms_.dispatcher->DetachAll(queue);
}

void Loader::CleanUp(Version& version) {
  const Holdings holdings = version.TakeHoldings();
  if (holdings.queue != nullptr) {
    holdings.queue->Close(RetiredStatus(absl::StrCat(Name(version), " serves no more")));
    rooms_.dispatcher->DetachAll(holdings.queue);
  }
  for (cards::Card* card : holdings.cards) {
    const auto status = card->Unload(holdings.executable);
    if (!status.ok() && !absl::IsNotFound(status)) {
      const std::string why(status.message());
      telemetry::LogWarning(
          "card did not unload a version",
          {{"version", version.label()}, {"card", card->name()}, {"reason", why}});
    }
  }
}

void Loader::LetGo(Version& version) {
  const Holdings holdings = version.TakeHoldings();
  if (holdings.queue != nullptr) rooms_.dispatcher->DetachAll(holdings.queue);
}

absl::StatusOr<std::map<std::string, std::string>> Loader::Describe(const std::string& driver) {
  absl::MutexLock lock(&describe_mutex_);
  const auto known = described_.find(driver);
  if (known != described_.end()) return known->second;
  if (!options_.describe) {
    return absl::FailedPreconditionError(
        absl::StrCat("nobody can tell what driver ", driver, " needs"));
  }
  auto described = options_.describe(driver);
  if (described.ok()) described_[driver] = *described;
  return described;
}

}  // namespace belfry::serving
