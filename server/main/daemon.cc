#include "server/main/daemon.h"

#include <signal.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/files.h"
#include "server/main/install_paths.h"
#include "server/serving/version_state.h"
#include "server/telemetry/log.h"

namespace belfry {
namespace {

// For a card to finish what it runs once nothing new comes.
constexpr absl::Duration kCardGrace = absl::Seconds(5);
// For calls that still run once every request is answered (waits, watches).
constexpr absl::Duration kCallGrace = absl::Milliseconds(500);

constexpr int64_t kMiB = 1 << 20;

absl::Status InFlag(const std::string& flag, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("--", flag, ": ", status.message()));
}

std::string CardBinary(const Config& config) {
  return config.card_binary.empty() ? DefaultCardBinary() : config.card_binary;
}

// Before anything is started: a wrong flag must not cost a card's start.
absl::Status CheckAddresses(const Config& config) {
  for (const auto& [flag, text] : {std::pair("listen", config.listen),
                                   std::pair("admin-listen", config.admin_listen),
                                   std::pair("metrics-listen", config.metrics_listen)}) {
    const auto address = rpc::ParseListenAddress(text);
    if (!address.ok()) return InFlag(flag, address.status());
  }
  if (rpc::ParseListenAddress(config.metrics_listen)->is_unix()) {
    return absl::InvalidArgumentError("--metrics-listen: got a Unix socket, expected HOST:PORT");
  }
  return absl::OkStatus();
}

void WarnIfOpen(const rpc::ListenAddress& address, std::string_view what) {
  if (address.is_local()) return;
  telemetry::LogWarning("listens for other hosts without encryption or authentication",
                        {{"listener", what}, {"address", address.ToString()}});
}

telemetry::CardSample Sample(const cards::CardInfo& info) {
  telemetry::CardSample sample;
  sample.card = info.name;
  sample.driver = info.driver;
  sample.state = cards::CardStateName(info.state);
  sample.busy_seconds = info.busy_seconds;
  sample.batches = info.batches;
  sample.restarts = static_cast<uint64_t>(info.restarts);
  sample.cycles = info.cycles;
  sample.memory_used = info.memory_used;
  sample.memory_total = info.memory_total;
  return sample;
}

}  // namespace

absl::Status Daemon::Start(std::function<void()> request_exit) {
  if (auto status = CheckAddresses(config_); !status.ok()) return status;
  auto run_files = RunFiles::Open(config_.data_dir);
  if (!run_files.ok()) return InFlag("data-dir", run_files.status());
  run_files_ = *std::move(run_files);
  metrics_ = std::make_unique<telemetry::Metrics>();
  if (auto status = OpenStore(); !status.ok()) return status;
  if (auto status = StartCards(); !status.ok()) return status;
  if (auto status = StartServing(); !status.ok()) return status;
  return StartListeners(std::move(request_exit));
}

absl::Status Daemon::OpenStore() {
  artifacts::StoreOptions options;
  options.dir = JoinPath(config_.data_dir, "artifacts");
  options.quota_bytes = static_cast<uint64_t>(config_.cache_quota_gb * 1024 * kMiB);
  options.artifacts_only = config_.artifacts_only;
  options.python = config_.python;
  options.compiler_dir =
      config_.compiler_dir.empty() ? DefaultCompilerDir() : config_.compiler_dir;
  options.parallel_compiles = static_cast<int>(config_.parallel_compiles);
  options.compile_timeout = config_.compile_timeout;
  options.compile_memory_bytes = static_cast<uint64_t>(config_.compile_memory_mb * kMiB);
  options.metrics = metrics_.get();
  auto store = artifacts::ArtifactStore::Open(std::move(options));
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  return absl::OkStatus();
}

absl::Status Daemon::StartCards() {
  cards::PoolOptions options;
  auto groups = cards::ParseCards(config_.cards);
  if (!groups.ok()) return InFlag("cards", groups.status());
  options.groups = *std::move(groups);
  options.card_binary = CardBinary(config_);
  options.cores_per_card = static_cast<int>(config_.cores_per_card);
  options.pin = config_.pin;
  options.arena_bytes = static_cast<size_t>(config_.arena_mb * kMiB);
  options.memory_bytes = static_cast<uint64_t>(config_.card_memory_mb * kMiB);
  const std::vector<cards::CardGroup> groups_started = options.groups;
  dispatcher_ = std::make_unique<scheduling::Dispatcher>();
  auto pool = cards::CardPool::Start(std::move(options), dispatcher_.get());
  if (!pool.ok()) return pool.status();
  {
    absl::MutexLock lock(&cards_mutex_);
    cards_ = *std::move(pool);
  }
  dispatcher_->SetCards(cards_->cards());
  return DescribeDrivers(groups_started);
}

// While the card processes start: a driver that is not there is a wrong flag,
// not a card that fails for ever.
absl::Status Daemon::DescribeDrivers(const std::vector<cards::CardGroup>& groups) {
  for (const cards::CardGroup& group : groups) {
    if (drivers_.contains(group.driver)) continue;
    auto description = cards::DescribeDriver(CardBinary(config_), group.driver);
    if (!description.ok()) return InFlag("cards", description.status());
    drivers_[group.driver] = *std::move(description);
  }
  return absl::OkStatus();
}

absl::Status Daemon::StartServing() {
  catalog_ = std::make_unique<serving::Catalog>();
  serving::ManagerOptions options;
  options.model_dir = config_.model_dir;
  options.load_roots = config_.load_root;
  if (!config_.model_dir.empty()) options.load_roots.push_back(config_.model_dir);
  options.policy = config_.version_policy == "all" ? serving::VersionPolicy::kAll
                                                   : serving::VersionPolicy::kLatest;
  options.drain_timeout = config_.drain_timeout;
  // Names and shapes take some room in the message too.
  options.max_answer_bytes = (config_.max_message_mb << 20) - (64 << 10);
  options.describe_driver = [this](const std::string& driver) { return drivers_.at(driver); };
  manager_ = std::make_unique<serving::Manager>(std::move(options), catalog_.get(),
                                                dispatcher_.get(), cards_.get(), store_.get(),
                                                metrics_.get());
  dispatcher_->SetModelListener(manager_.get());
  readiness_ = std::make_unique<rpc::Readiness>(catalog_.get(), manager_.get(), cards_.get());
  PublishMetrics();
  return absl::OkStatus();
}

void Daemon::PublishMetrics() {
  metrics_->SetCardSource([pool = cards_.get()] {
    std::vector<telemetry::CardSample> samples;
    for (const cards::Card* card : pool->cards()) samples.push_back(Sample(card->Info()));
    return samples;
  });
  metrics_->SetVersionSource([catalog = catalog_.get()] {
    std::vector<telemetry::VersionSample> samples;
    for (const auto& entry : catalog->List()) {
      samples.push_back({entry->model, entry->version,
                         std::string(serving::VersionStateName(entry->state))});
    }
    return samples;
  });
}

absl::Status Daemon::StartListeners(std::function<void()> request_exit) {
  const auto listen = rpc::ParseListenAddress(config_.listen);  // checked by Start
  const auto admin = rpc::ParseListenAddress(config_.admin_listen);
  WarnIfOpen(*listen, "inference");
  WarnIfOpen(*admin, "admin");

  backend_ = {.catalog = catalog_.get(),
              .manager = manager_.get(),
              .pool = cards_.get(),
              .metrics = metrics_.get(),
              .readiness = readiness_.get(),
              .server_version = BELFRY_VERSION};
  rpc::ServerOptions options;
  options.listen = *listen;
  options.admin_listen = *admin;
  options.max_message_mb = static_cast<int>(config_.max_message_mb);
  options.max_in_flight_bytes = config_.max_in_flight_mb * kMiB;
  options.queues = static_cast<int>(config_.rpc_queues);
  options.drain_timeout = config_.drain_timeout;
  options.request_exit = std::move(request_exit);
  auto server = rpc::Server::Start(std::move(options), &backend_, dispatcher_.get());
  if (!server.ok()) return server.status();
  server_ = *std::move(server);

  if (auto status = metrics_->Listen(config_.metrics_listen); !status.ok()) {
    return InFlag("metrics-listen", status);
  }
  auto metrics_address = *rpc::ParseListenAddress(config_.metrics_listen);
  WarnIfOpen(metrics_address, "metrics");
  if (const auto ports = metrics_->ListeningPorts(); !ports.empty()) {
    metrics_address.port = ports.front();
  }
  const Addresses addresses = {server_->inference_address(), server_->admin_address(),
                               metrics_address.ToString()};
  if (auto status = run_files_->WriteAddresses(addresses); !status.ok()) return status;
  // Only now: a server that cannot listen must not begin to compile.
  manager_->Start();
  telemetry::LogInfo("serving", {{"inference", addresses.inference},
                                 {"admin", addresses.admin},
                                 {"metrics", addresses.metrics},
                                 {"cards", config_.cards},
                                 {"version", BELFRY_VERSION}});
  return absl::OkStatus();
}

void Daemon::Stop() {
  const bool drained_before = readiness_->draining();
  server_->MarkDraining();
  if (!drained_before && config_.lame_duck > absl::ZeroDuration()) {
    telemetry::LogInfo("lame duck", {{"seconds", absl::ToDoubleSeconds(config_.lame_duck)}});
    absl::SleepFor(config_.lame_duck);
  }
  const absl::Time begin = absl::Now();
  manager_->Drain(config_.drain_timeout);
  telemetry::LogInfo("drained", {{"seconds", absl::ToDoubleSeconds(absl::Now() - begin)}});
  server_->Shutdown(kCallGrace);
  Close();
}

void Daemon::Close() {
  if (metrics_ != nullptr) {
    metrics_->SetCardSource(nullptr);
    metrics_->SetVersionSource(nullptr);
  }
  server_.reset();
  if (run_files_ != nullptr) run_files_->RemoveAddresses();
  // No batch runs on a card that has stopped, so nobody calls the manager after
  // this.
  if (cards_ != nullptr) cards_->Stop(kCardGrace);
  if (dispatcher_ != nullptr) dispatcher_->SetModelListener(nullptr);
  readiness_.reset();
  manager_.reset();
  std::unique_ptr<cards::CardPool> cards;
  {
    absl::MutexLock lock(&cards_mutex_);
    cards = std::move(cards_);
  }
  cards.reset();
  // Kills a compile that still runs.
  store_.reset();
  metrics_.reset();
  run_files_.reset();
}

void Daemon::KillCards() {
  absl::MutexLock lock(&cards_mutex_);
  if (cards_ == nullptr) return;
  for (const cards::Card* card : cards_->cards()) {
    const int pid = card->Info().pid;
    if (pid > 0) kill(pid, SIGKILL);
  }
}

}  // namespace belfry
