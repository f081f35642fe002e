#include "server/rpc/admin_service.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/rpc/repository.h"
#include "server/rpc/statistics.h"
#include "server/rpc/status.h"
#include "server/rpc/version_info.h"
#include "server/telemetry/log.h"

namespace belfry::rpc {
namespace {

Cancelled GoneFrom(grpc::ServerContext* context) {
  return [context] { return context->IsCancelled(); };
}

absl::Status CheckVersion(int64_t version) {
  if (version >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("version: got ", version, ", expected a number from 1 on, or 0"));
}

std::string VersionText(int64_t version) {
  return version == 0 ? std::string() : std::to_string(version);
}

v1::CardState ToProto(cards::CardState state) {
  switch (state) {
    case cards::CardState::kStarting:
      return v1::CARD_STATE_STARTING;
    case cards::CardState::kReady:
      return v1::CARD_STATE_READY;
    case cards::CardState::kRestarting:
      return v1::CARD_STATE_RESTARTING;
    case cards::CardState::kStopped:
      return v1::CARD_STATE_STOPPED;
  }
  return v1::CARD_STATE_UNSPECIFIED;
}

void Fill(const cards::CardInfo& info, v1::CardInfo* out) {
  out->set_name(info.name);
  out->set_driver(info.driver);
  out->set_state(ToProto(info.state));
  out->set_pid(info.pid);
  out->set_restarts(static_cast<uint64_t>(info.restarts));
  out->set_last_error(BoundMessage(info.last_error));
  out->set_memory_used(info.memory_used);
  out->set_memory_total(info.memory_total);
  out->set_busy_seconds(info.busy_seconds);
  out->set_batches(info.batches);
  out->set_cycles(info.cycles);
  for (const auto& label : info.residents) out->add_residents(label);
  for (int core : info.cores) out->add_cores(core);
}

}  // namespace

grpc::Status AdminService::Load(grpc::ServerContext* context, const v1::LoadRequest* request,
                                v1::LoadResponse* response) {
  const auto begun = BeginLoad(*request);
  if (!begun.ok()) return ToGrpc(begun.status());
  const auto& [model, version] = *begun;
  telemetry::LogInfo("load asked for", {{"model", model}, {"version", version},
                                        {"path", request->path()}, {"by", context->peer()}});
  if (request->wait()) {
    const auto ready = AwaitReady(backend_->manager, model, version, GoneFrom(context));
    if (!ready.ok()) return ToGrpc(ready);
  }
  const auto status = backend_->manager->Status(model, version);
  if (!status.ok()) return ToGrpc(status.status());
  *response->mutable_version() = Summarize(*backend_, *status);
  return grpc::Status::OK;
}

absl::StatusOr<std::pair<std::string, std::string>> AdminService::BeginLoad(
    const v1::LoadRequest& request) {
  if (auto status = CheckVersion(request.version()); !status.ok()) return status;
  if (request.path().empty()) return BeginNamedLoad(request);
  return backend_->manager->LoadPath(request.path(), request.name(), request.version());
}

absl::StatusOr<std::pair<std::string, std::string>> AdminService::BeginNamedLoad(
    const v1::LoadRequest& request) {
  if (request.name().empty()) {
    return absl::InvalidArgumentError("neither a path nor a name was given, one is needed");
  }
  if (request.version() != 0) {
    return absl::InvalidArgumentError(
        "version goes with a path; by name the newest version in the model folder is taken");
  }
  if (auto status = backend_->manager->LoadModel(request.name()); !status.ok()) return status;
  auto versions = VersionsOf(request.name(), 0);
  if (!versions.ok()) return versions.status();
  return std::make_pair(versions->back().model, versions->back().version);
}

grpc::Status AdminService::Unload(grpc::ServerContext* context, const v1::UnloadRequest* request,
                                  v1::UnloadResponse* response) {
  if (auto status = CheckVersion(request->version()); !status.ok()) return ToGrpc(status);
  const auto before = VersionsOf(request->name(), request->version());
  if (!before.ok()) return ToGrpc(before.status());
  telemetry::LogInfo("unload asked for", {{"model", request->name()},
                                          {"version", request->version()},
                                          {"by", context->peer()}});
  const auto begun = backend_->manager->Unload(request->name(), VersionText(request->version()));
  if (!begun.ok()) return ToGrpc(begun);
  for (const auto& version : *before) {
    if (request->wait()) {
      const auto done =
          AwaitUnloaded(backend_->manager, version.model, version.version, GoneFrom(context));
      if (!done.ok()) return ToGrpc(done);
    }
    auto after = backend_->manager->Status(version.model, version.version);
    if (!after.ok()) {  // forgotten by now: it is as unloaded as can be
      after = version;
      after->state = serving::VersionState::kUnloaded;
    }
    *response->add_versions() = Summarize(*backend_, *after);
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::List(grpc::ServerContext*, const v1::ListRequest* request,
                                v1::ListResponse* response) {
  auto versions = backend_->manager->StatusOfAll();
  SortVersions(&versions);
  for (const auto& status : versions) {
    if (request->name().empty() || request->name() == status.model) {
      *response->add_versions() = Summarize(*backend_, status);
    }
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::Show(grpc::ServerContext*, const v1::ShowRequest* request,
                                v1::ShowResponse* response) {
  const auto versions = VersionsOf(request->name(), request->version());
  if (!versions.ok()) return ToGrpc(versions.status());
  for (const auto& status : *versions) {
    *response->add_versions() = Detail(*backend_, status, request->explain_cache_miss());
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::Cards(grpc::ServerContext*, const v1::CardsRequest*,
                                 v1::CardsResponse* response) {
  for (const cards::Card* card : backend_->pool->cards()) Fill(card->Info(), response->add_cards());
  return grpc::Status::OK;
}

grpc::Status AdminService::Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                                 v1::DrainResponse* response) {
  telemetry::LogInfo("drain asked for", {{"by", context->peer()}, {"exit", request->exit()}});
  options_.mark_draining();
  absl::Duration timeout = absl::ZeroDuration();
  if (request->wait()) {
    // Answer before the caller's deadline, so that it learns the count.
    const absl::Duration left = absl::FromChrono(context->deadline()) - absl::Now();
    timeout = std::clamp(left - absl::Milliseconds(200), absl::ZeroDuration(),
                         options_.drain_timeout);
  }
  backend_->manager->Drain(timeout);
  response->set_in_flight(InFlight());
  if (request->exit()) options_.request_exit();
  return grpc::Status::OK;
}

absl::StatusOr<std::vector<serving::VersionStatus>> AdminService::VersionsOf(
    const std::string& model, int64_t version) const {
  auto versions = backend_->manager->StatusOfAll();
  std::erase_if(versions, [&](const serving::VersionStatus& status) {
    return status.model != model ||
           (version != 0 && VersionNumber(status.version) != version);
  });
  if (!versions.empty()) {
    SortVersions(&versions);
    return versions;
  }
  // The catalog's words name what there is.
  const auto found = backend_->catalog->Find(model, VersionText(version));
  if (!found.ok()) return found.status();
  return absl::NotFoundError(absl::StrCat("model '", telemetry::Sanitize(model, 128), "'",
                                          version == 0 ? "" : " version ", VersionText(version),
                                          " is not known"));
}

int64_t AdminService::InFlight() const {
  int64_t sum = 0;
  for (const auto& entry : backend_->catalog->List()) {
    const auto metrics = MetricsOf(*backend_, *entry);
    if (metrics != nullptr) sum += metrics->in_flight.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace belfry::rpc
