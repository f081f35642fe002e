#include "server/serving/manager.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "device/channel/text.h"
#include "server/serving/manager_impl.h"

namespace belfry::serving {
namespace {

// Drains at once; each mostly waits.
constexpr int kParallelRetires = 2;

std::vector<std::string> Roots(const ManagerOptions& options) {
  std::vector<std::string> roots = options.load_roots;
  roots.push_back(options.model_dir);
  return roots;
}

bool HasReadyCard(const Version& version) {
  const auto cards = version.cards();
  return std::any_of(cards.begin(), cards.end(), [](const cards::Card* card) {
    return card->state() == cards::CardState::kReady;
  });
}

}  // namespace

Manager::Impl::Impl(ManagerOptions options, Catalog* catalog, Rooms rooms)
    : options_(std::move(options)),
      roots_(Roots(options_)),
      catalog_(catalog),
      rooms_(rooms),
      loader_({.drain_timeout = options_.drain_timeout,
               .warm_budget = options_.warm_budget,
               .max_answer_bytes = options_.max_answer_bytes,
               .describe = options_.describe_driver},
              rooms),
      loads_(options_.parallel_loads),
      retires_(kParallelRetires),
      urgent_(1) {}

bool Manager::Impl::Ready() {
  absl::MutexLock lock(&mutex_);
  if (!started_ || draining_) return false;
  // What has been READY, or has ended, once, is not waited for again: a reload is
  // no reason to send clients away.
  std::erase_if(awaited_, [](const VersionPtr& v) { return IsSettled(v->state()); });
  if (!awaited_.empty()) return false;
  const auto& cards = rooms_.pool->cards();
  if (std::none_of(cards.begin(), cards.end(), [](const cards::Card* card) {
        return card->state() == cards::CardState::kReady;
      })) {
    return false;
  }
  return std::all_of(required_.begin(), required_.end(), [this](const std::string& model)
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    bool serves = false;
    bool can_run = false;
    for (const auto& [number, slot] : *table_.Model(model)) {
      if (slot.version->state() != VersionState::kReady) continue;
      serves = true;
      can_run = can_run || HasReadyCard(*slot.version);
    }
    return can_run || !serves;
  });
}

void Manager::Impl::Drain(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  std::vector<VersionPtr> versions;
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    versions = table_.All();
  }
  // First, so that nobody looks a version up and finds its queue closed.
  catalog_->Drain(kServerDrains);
  std::vector<std::shared_ptr<scheduling::ModelQueue>> queues;
  for (const VersionPtr& version : versions) {
    version->Cancel();
    version->Step(VersionState::kReady, VersionState::kDraining, kServerDrains);
    if (auto queue = version->queue()) queues.push_back(std::move(queue));
  }
  for (const auto& queue : queues) queue->Close(absl::UnavailableError(kServerDrains));
  for (const auto& queue : queues) {
    queue->WaitIdle(std::max(absl::ZeroDuration(), deadline - absl::Now()));
  }
}

Manager::Impl::~Impl() {
  Drain(absl::ZeroDuration());
  const auto versions = All();
  // Answers what still waits, and by that ends the drains that wait for it.
  for (const VersionPtr& version : versions) {
    if (const auto queue = version->queue()) {
      rooms_.dispatcher->FailAll(queue, absl::UnavailableError("the server has shut down"));
    }
  }
  loads_.Stop();
  urgent_.Stop();
  retires_.Stop();
  for (const VersionPtr& version : versions) loader_.LetGo(*version);
}

Manager::Manager(ManagerOptions options, Catalog* catalog, scheduling::Dispatcher* dispatcher,
                 cards::CardPool* pool, artifacts::ArtifactStore* store,
                 telemetry::Metrics* metrics, const Clock* clock)
    : impl_(std::make_unique<Impl>(std::move(options), catalog,
                                   Rooms{.dispatcher = dispatcher,
                                         .pool = pool,
                                         .store = store,
                                         .metrics = metrics,
                                         .clock = clock})) {}
Manager::~Manager() = default;

void Manager::Start() { impl_->Start(); }

absl::Status Manager::LoadModel(const std::string& model) { return impl_->LoadModel(model); }

absl::StatusOr<std::pair<std::string, std::string>> Manager::LoadPath(const std::string& path,
                                                                      const std::string& model,
                                                                      int64_t version) {
  return impl_->LoadPath(path, model, version);
}

absl::Status Manager::Unload(const std::string& model, const std::string& version) {
  return impl_->Unload(model, version);
}

absl::StatusOr<VersionStatus> Manager::Wait(const std::string& model, const std::string& version,
                                            absl::Duration timeout) {
  return impl_->Wait(model, version, timeout);
}

absl::StatusOr<VersionStatus> Manager::Status(const std::string& model,
                                              const std::string& version) const {
  const auto found = impl_->Lookup(model, version);
  if (!found.ok()) return found.status();
  return (*found)->Status();
}

std::vector<VersionStatus> Manager::StatusOfAll() const {
  std::vector<VersionStatus> out;
  for (const VersionPtr& version : impl_->All()) out.push_back(version->Status());
  return out;
}

absl::StatusOr<std::string> Manager::ExplainCacheMiss(const std::string& model,
                                                      const std::string& version) {
  const auto status = Status(model, version);
  if (!status.ok()) return status.status();
  if (status->path.empty()) {
    return absl::FailedPreconditionError("a built-in model is not compiled");
  }
  if (status->artifacts.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the cache was not asked yet: the version is ",
                     AbslView(VersionStateName(status->state))));
  }
  std::vector<std::string> lines;
  for (const ArtifactStatus& artifact : status->artifacts) {
    lines.push_back(absl::StrCat("target ", artifact.target, ": ",
                                 artifact.cache_hit ? "found in the cache" : artifact.miss));
  }
  return absl::StrJoin(lines, "\n");
}

bool Manager::Ready() const { return impl_->Ready(); }

void Manager::Drain(absl::Duration timeout) { impl_->Drain(timeout); }

void Manager::OnCardCrashed(const std::shared_ptr<scheduling::ModelQueue>& queue,
                            const std::string& card, const absl::Status& status) {
  impl_->OnCardCrashed(queue->options().executable, card, status);
}

void Manager::OnResidencyLost(cards::ExecutableId executable, const std::string& card,
                              const absl::Status& status) {
  impl_->OnResidencyLost(executable, card, status);
}

}  // namespace belfry::serving
