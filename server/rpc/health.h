// Keeps grpc.health.v1 in step with readiness.
#ifndef BELFRY_SERVER_RPC_HEALTH_H_
#define BELFRY_SERVER_RPC_HEALTH_H_

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/readiness.h"
#include "server/serving/catalog.h"

namespace grpc {
class HealthCheckServiceInterface;
}

namespace belfry::rpc {

// Publishes Readiness to the health services of the listeners: "" is the
// server, "NAME" is a model. Readiness is a conclusion from many places (states
// of versions, of cards, draining), so it is looked at ten times a second in
// this one thread instead of being announced from all of them; draining is
// published at once, from MarkDraining. Only names that the catalog holds are
// published, so a client cannot make the table grow.
// Thread-safe. The services must outlive it.
class HealthPublisher {
 public:
  HealthPublisher(const Readiness* readiness, const serving::Catalog* catalog,
                  std::vector<grpc::HealthCheckServiceInterface*> services);
  ~HealthPublisher();

  // Everything is NOT_SERVING from now on; Watch streams are told at once.
  void MarkDraining();

 private:
  void Run();
  void PublishAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Publish(const std::string& service, bool serving) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Readiness* const readiness_;
  const serving::Catalog* const catalog_;
  const std::vector<grpc::HealthCheckServiceInterface*> services_;
  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, bool> published_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_HEALTH_H_
