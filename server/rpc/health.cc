#include "server/rpc/health.h"

#include <grpcpp/health_check_service_interface.h>

#include <set>

namespace belfry::rpc {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(100);

}  // namespace

HealthPublisher::HealthPublisher(const Readiness* readiness, const serving::Catalog* catalog,
                                 std::vector<grpc::HealthCheckServiceInterface*> services)
    : readiness_(readiness), catalog_(catalog), services_(std::move(services)) {
  {
    // gRPC's service starts out as SERVING.
    absl::MutexLock lock(&mutex_);
    Publish("", false);
  }
  thread_ = std::thread([this] { Run(); });
}

HealthPublisher::~HealthPublisher() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void HealthPublisher::MarkDraining() {
  absl::MutexLock lock(&mutex_);
  stop_ = true;
  for (auto& [name, serving] : published_) serving = false;
  // Also refuses later changes.
  for (auto* service : services_) service->Shutdown();
}

void HealthPublisher::Run() {
  absl::MutexLock lock(&mutex_);
  while (!stop_) {
    PublishAll();
    mutex_.AwaitWithTimeout(absl::Condition(&stop_), kPeriod);
  }
}

void HealthPublisher::PublishAll() {
  Publish("", readiness_->ServerReady());
  std::set<std::string> models;
  for (const auto& entry : catalog_->List()) models.insert(entry->model);
  for (const auto& model : models) {
    Publish(model, readiness_->ModelReady(model, "").value_or(false));
  }
  for (const auto& [name, serving] : published_) {
    if (serving && !name.empty() && !models.contains(name)) Publish(name, false);
  }
}

void HealthPublisher::Publish(const std::string& service, bool serving) {
  const auto [at, fresh] = published_.try_emplace(service, serving);
  if (!fresh && at->second == serving) return;
  at->second = serving;
  for (auto* health : services_) health->SetServingStatus(service, serving);
}

}  // namespace belfry::rpc
