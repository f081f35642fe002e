// The whole server: makes the parts in order, ends them in order.
#ifndef BELFRY_SERVER_MAIN_DAEMON_H_
#define BELFRY_SERVER_MAIN_DAEMON_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/artifacts/store.h"
#include "server/cards/pool.h"
#include "server/main/config.h"
#include "server/main/run_files.h"
#include "server/rpc/control_handler_impl.h"
#include "server/rpc/readiness.h"
#include "server/rpc/server.h"
#include "server/scheduling/dispatcher.h"
#include "server/serving/catalog.h"
#include "server/serving/manager.h"
#include "server/telemetry/metrics.h"

namespace belfry {

// Start, then Stop or Close, from one thread; KillCards from any.
class Daemon {
 public:
  explicit Daemon(Config config) : config_(std::move(config)) {}
  ~Daemon() { Close(); }

  // OK: everything listens and models are being loaded. 'request_exit' is what
  // an admin's "drain and exit" calls, at any time until Close.
  absl::Status Start(std::function<void()> request_exit);

  // Not ready -> lame duck -> accepted requests are finished -> listeners close
  // -> cards stop. Blocks, at most about --lame-duck + --drain-timeout and some
  // seconds.
  void Stop();

  // Ends everything as it stands (after a Start that failed, or as the last part
  // of Stop).
  void Close();

  // For the second signal: no card outlives the process.
  void KillCards() ABSL_LOCKS_EXCLUDED(cards_mutex_);

 private:
  absl::Status OpenStore();
  absl::Status StartCards();
  absl::Status DescribeDrivers(const std::vector<cards::CardGroup>& groups);
  absl::Status StartServing();
  absl::Status StartListeners(std::function<void()> request_exit);
  void PublishMetrics();

  const Config config_;

  // In the order of construction; destroyed from the last to the first. An
  // arrow reads "uses, so must go first":
  //   server -> readiness, control methods -> manager -> store, cards, dispatcher
  //   cards -> dispatcher (their threads call it until they are joined)
  //   metrics sources -> cards, catalog (taken away before those go)
  std::unique_ptr<RunFiles> run_files_;
  std::unique_ptr<telemetry::Metrics> metrics_;
  std::unique_ptr<artifacts::ArtifactStore> store_;
  std::unique_ptr<scheduling::Dispatcher> dispatcher_;
  absl::Mutex cards_mutex_;  // for KillCards
  std::unique_ptr<cards::CardPool> cards_;
  // What each driver in --cards says of itself.
  std::map<std::string, std::map<std::string, std::string>> drivers_;
  std::unique_ptr<serving::Catalog> catalog_;
  std::unique_ptr<serving::Manager> manager_;
  std::unique_ptr<rpc::Readiness> readiness_;
  rpc::Backend backend_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace belfry

#endif  // BELFRY_SERVER_MAIN_DAEMON_H_
