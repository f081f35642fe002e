// One load of one version: the steps from UPLOADED to READY, in order.
#ifndef BELFRY_SERVER_SERVING_LOAD_RUN_H_
#define BELFRY_SERVER_SERVING_LOAD_RUN_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/serving/loader.h"
#include "server/serving/model_config.h"
#include "server/serving/placement.h"
#include "server/serving/queue_plan.h"
#include "server/serving/warm_plan.h"

namespace belfry::serving {

// Used by one thread, once.
class LoadRun {
 public:
  LoadRun(Loader* loader, Version* version, uint64_t attempt)
      : loader_(*loader), rooms_(loader->rooms_), version_(*version), attempt_(attempt) {}

  // OK: the version is READY. Otherwise it is in no state that this has given
  // it, and may hold something that CleanUp gives back.
  absl::Status Run();

 private:
  // A card that is to hold the version, and from which folder.
  struct Seat {
    cards::Card* card = nullptr;
    std::string artifact_dir;
  };

  // load_run.cc
  absl::Status ReadFiles();
  absl::Status PlanSeats();
  absl::Status PrepareQueue();
  absl::Status BecomeReady();
  absl::Status Advance(VersionState from, VersionState to, std::string reason = {});
  bool stopped() const { return version_.cancelled(attempt_); }
  absl::Status NoneLeft() const;
  // What is less than it could be; the version may still serve.
  void Lacks(const std::string& where, const absl::Status& status);

  // load_run_compile.cc
  absl::Status Compile();
  absl::Status CompileFor(const Placement& placement);
  absl::StatusOr<std::shared_ptr<artifacts::ArtifactRef>> Get(
      const artifacts::CompileRequest& request, ArtifactStatus* shown);
  absl::Status Accept(const Placement& placement, const Manifest& manifest);

  // load_run_cards.cc
  absl::Status LoadOnCards();
  absl::Status WarmCards();
  absl::Status LoadOn(const Seat& seat);
  absl::Status WarmOn(cards::Card* card);
  // Calls 'action' on the card, and once more if the card died of it. Counts
  // these deaths; FAILED_PRECONDITION "quarantined …" when they are too many.
  absl::Status OnCard(cards::Card* card, absl::FunctionRef<absl::Status()> action);
  void Show(std::string stage);

  Loader& loader_;
  const Rooms& rooms_;
  Version& version_;
  const uint64_t attempt_;
  MonoNs begun_ = 0;
  MonoNs compile_ns_ = 0;
  Origin origin_;
  ModelConfig config_;
  std::vector<Placement> placements_;
  std::vector<Seat> seats_;
  std::shared_ptr<const Signature> signature_;
  std::string platform_;
  std::string report_json_;
  scheduling::QueueOptions queue_;
  std::vector<std::string> lacks_;
  absl::Status quarantined_;
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_LOAD_RUN_H_
