#include "server/artifacts/store.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "server/artifacts/cache.h"
#include "server/artifacts/flight.h"
#include "server/artifacts/model_digest.h"
#include "server/artifacts/wanted.h"
#include "server/artifacts/worker.h"
#include "server/telemetry/log.h"
#include "server/telemetry/metrics.h"

namespace belfry::artifacts {
namespace {

using Report = Flights::Report;
using Cancelled = std::function<bool()>;

// The compiler runs in a folder of its own, so every path is made absolute; not
// resolved: a venv's interpreter is known by the link it was called through.
std::string Absolute(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char here[4096];
  return getcwd(here, sizeof(here)) == nullptr ? path : JoinPath(here, path);
}

std::string FindProgram(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) return Absolute(name);
  const char* path = getenv("PATH");
  for (const std::string& dir : std::vector<std::string>(
           absl::StrSplit(path != nullptr ? path : "/usr/bin:/bin", ':', absl::SkipEmpty()))) {
    const std::string candidate = JoinPath(dir, name);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return name;
}

StoreOptions Normal(StoreOptions options) {
  options.dir = Absolute(options.dir);
  options.compiler_dir = Absolute(options.compiler_dir);
  options.python = FindProgram(options.python);
  if (options.parallel_compiles < 1) options.parallel_compiles = 1;
  if (options.files == nullptr) options.files = &FileSystem::Real();
  return options;
}

class Ref final : public ArtifactRef {
 public:
  explicit Ref(Landing landing) : landing_(std::move(landing)) {}
  const std::string& dir() const override { return landing_.artifact->dir(); }
  const Manifest& manifest() const override { return landing_.artifact->manifest(); }
  bool was_cached() const override { return landing_.from_cache; }

 private:
  const Landing landing_;
};

// One compile into the cache, and what it leaves behind.
absl::StatusOr<std::shared_ptr<PinnedArtifact>> CompileInto(
    Cache& cache, const Worker& worker, FileSystem& files, WorkerJob job, const Report& report,
    const Cancelled& cancelled, const std::function<absl::Status()>& still_valid) {
  absl::StatusOr<std::string> work = cache.NewWorkFolder();
  if (!work.ok()) return work.status();
  auto cleanup = absl::MakeCleanup([&] {
    if (absl::Status s = files.RemoveTree(*work); !s.ok()) {
      telemetry::LogWarning("cannot remove a work folder",
                            {{"path", *work}, {"error", s.ToString()}});
    }
  });
  job.work_folder = *work;
  absl::StatusOr<WorkerResult> made = worker.Compile(job, report, cancelled);
  if (!made.ok()) return made.status();
  if (absl::Status s = still_valid(); !s.ok()) return s;
  auto published = cache.Publish(made->folder, made->key);
  if (absl::IsDataLoss(published.status())) {
    return absl::InternalError(absl::StrCat("the compiler wrote an artifact that is not whole: ",
                                            published.status().message()));
  }
  return published;
}

class StoreImpl final : public ArtifactStore {
 public:
  StoreImpl(StoreOptions options, std::shared_ptr<Cache> cache)
      : options_(std::move(options)),
        files_(*options_.files),
        cache_(std::move(cache)),
        worker_(options_, files_),
        digests_(files_) {}

  ~StoreImpl() override {
    flights_.reset();  // kills what runs
    cache_->Close();   // pins may outlive this
  }

  absl::StatusOr<std::shared_ptr<ArtifactRef>> Get(
      const CompileRequest& request, std::function<void(const CompileProgress&)> progress,
      std::function<bool()> cancelled) override;
  absl::StatusOr<std::string> ExplainMiss(const CompileRequest& request) override;
  Usage GetUsage() const override;

 private:
  bool CanCompile() const { return !options_.artifacts_only && !options_.python.empty(); }
  absl::StatusOr<CompilerIdentity> Identity(const Cancelled& cancelled);
  absl::StatusOr<Landing> GetCached(const CompileRequest& request,
                                    const ModelDigests::Digest& digest, const Report& progress,
                                    const Cancelled& cancelled);
  absl::StatusOr<Landing> FindOrCompile(const CompileRequest& request, const ArtifactKey& key,
                                        const ModelDigests::Digest& digest,
                                        const CompilerIdentity& compiler, const Report& report,
                                        const Cancelled& cancelled);
  absl::StatusOr<Landing> Compile(const CompileRequest& request, const ArtifactKey& key,
                                  const ModelDigests::Digest& digest, const Report& report,
                                  const Cancelled& cancelled);
  absl::Status TakeSlot(const Report& report, const Cancelled& cancelled);
  void GiveSlot();
  absl::StatusOr<std::shared_ptr<ArtifactRef>> Account(const std::string& target,
                                                       absl::StatusOr<Landing> landing,
                                                       bool compiles);

  const StoreOptions options_;
  FileSystem& files_;
  const std::shared_ptr<Cache> cache_;
  const Worker worker_;
  ModelDigests digests_;

  absl::Mutex identity_mutex_;  // held while the compiler is asked, once
  std::optional<CompilerIdentity> identity_ ABSL_GUARDED_BY(identity_mutex_);

  absl::Mutex slots_mutex_;
  absl::CondVar slot_free_;
  int compiling_ ABSL_GUARDED_BY(slots_mutex_) = 0;

  mutable absl::Mutex usage_mutex_;
  uint64_t hits_ ABSL_GUARDED_BY(usage_mutex_) = 0;
  uint64_t misses_ ABSL_GUARDED_BY(usage_mutex_) = 0;

  std::unique_ptr<Flights> flights_ = std::make_unique<Flights>();
};

absl::StatusOr<CompilerIdentity> StoreImpl::Identity(const Cancelled& cancelled) {
  absl::MutexLock lock(&identity_mutex_);
  if (!identity_) {
    absl::StatusOr<CompilerIdentity> identity = worker_.Describe(cancelled);
    if (!identity.ok()) return identity.status();
    identity_ = *std::move(identity);
  }
  return *identity_;
}

absl::StatusOr<std::shared_ptr<ArtifactRef>> StoreImpl::Get(
    const CompileRequest& request, std::function<void(const CompileProgress&)> progress,
    std::function<bool()> cancelled) {
  CompileRequest asked = request;
  asked.model_path = Absolute(request.model_path);
  const absl::StatusOr<ModelDigests::Digest> digest = digests_.Of(asked.model_path);
  if (!digest.ok()) return digest.status();
  if (!CanCompile()) {
    return Account(asked.target, GetCached(asked, *digest, progress, cancelled), false);
  }
  const absl::StatusOr<CompilerIdentity> compiler = Identity(cancelled);
  if (!compiler.ok()) {
    if (absl::IsCancelled(compiler.status())) return compiler.status();
    // A compiler that broke must not keep a warm cache from serving.
    auto landing = GetCached(asked, *digest, progress, cancelled);
    if (!landing.ok()) return compiler.status();
    telemetry::LogWarning("the compiler does not answer; a cached artifact is used",
                          {{"model", asked.label}, {"error", compiler.status().ToString()}});
    return Account(asked.target, std::move(landing), false);
  }
  const absl::StatusOr<ArtifactKey> key = WantedKey(asked, digest->sha256, *compiler);
  if (!key.ok()) return key.status();
  auto landing = flights_->Join(
      key->hex,
      [this, asked, key = *key, digest = *digest, compiler = *compiler](
          const Report& report, const Cancelled& abandoned) {
        return FindOrCompile(asked, key, digest, compiler, report, abandoned);
      },
      progress, cancelled);
  return Account(asked.target, std::move(landing), true);
}

absl::StatusOr<std::shared_ptr<ArtifactRef>> StoreImpl::Account(const std::string& target,
                                                                absl::StatusOr<Landing> landing,
                                                                bool compiles) {
  const bool hit = landing.ok() && landing->from_cache;
  const bool counts = landing.ok() || !absl::IsCancelled(landing.status());
  if (counts) {
    absl::MutexLock lock(&usage_mutex_);
    ++(hit ? hits_ : misses_);
  }
  if (counts && options_.metrics != nullptr) {
    if (hit) {
      options_.metrics->CacheHit(target);
    } else {
      options_.metrics->CacheMiss(target);
    }
  }
  if (!landing.ok()) return landing.status();
  return std::make_shared<Ref>(*std::move(landing));
}

absl::StatusOr<Landing> StoreImpl::GetCached(const CompileRequest& request,
                                             const ModelDigests::Digest& digest,
                                             const Report& progress, const Cancelled& cancelled) {
  const std::vector<Cache::Listing> cached = cache_->List();
  const absl::StatusOr<Matches> matches = MatchCached(request, digest.sha256, cached);
  if (!matches.ok()) return matches.status();
  absl::Status damage;
  for (const std::string& name : matches->names) {
    absl::StatusOr<Landing> landing = flights_->Join(
        name,
        [this, name](const Report&, const Cancelled&) -> absl::StatusOr<Landing> {
          auto found = cache_->Find(name);
          if (!found.ok()) return found.status();
          return Landing{*std::move(found), true};
        },
        progress, cancelled);
    const absl::Status& why = landing.status();
    if (landing.ok() || !(absl::IsNotFound(why) || absl::IsDataLoss(why))) return landing;
    damage = why;
  }
  if (!damage.ok()) return damage;
  return absl::NotFoundError(absl::StrCat(
      "no compiled artifact for ", request.label.empty() ? "the model" : request.label, " in '",
      options_.dir, "' and nothing may be compiled here; it needs ",
      FieldsForPeople(matches->asked, matches->unknown), "; the nearest: ",
      Explain(matches->asked, matches->unknown, cached)));
}

absl::StatusOr<Landing> StoreImpl::FindOrCompile(const CompileRequest& request,
                                                 const ArtifactKey& key,
                                                 const ModelDigests::Digest& digest,
                                                 const CompilerIdentity& compiler,
                                                 const Report& report,
                                                 const Cancelled& cancelled) {
  auto found = cache_->Find(key.hex);
  if (found.ok()) return Landing{*std::move(found), true};
  if (!absl::IsNotFound(found.status()) && !absl::IsDataLoss(found.status())) {
    return found.status();
  }
  if (absl::Status s = CheckSameTorch(request, compiler); !s.ok()) return s;
  return Compile(request, key, digest, report, cancelled);
}

absl::StatusOr<Landing> StoreImpl::Compile(const CompileRequest& request, const ArtifactKey& key,
                                           const ModelDigests::Digest& digest,
                                           const Report& report, const Cancelled& cancelled) {
  if (absl::Status s = TakeSlot(report, cancelled); !s.ok()) return s;
  auto slot = absl::MakeCleanup([this] { GiveSlot(); });
  WorkerJob job;
  job.model_path = request.model_path;
  job.target = request.target;
  const auto isa = request.driver.find("isa");
  if (isa != request.driver.end()) job.isa = isa->second;
  job.key = &key;
  job.log_path = cache_->LogPath(key.hex);
  files_.CreateDir(job.log_path.substr(0, job.log_path.rfind('/'))).IgnoreError();

  telemetry::LogInfo("compile begins",
                     {{"model", request.label}, {"target", request.target}, {"key", key.hex}});
  const absl::Time start = absl::Now();
  auto made = CompileInto(*cache_, worker_, files_, job, report, cancelled, [&] {
    return digests_.CheckUnchanged(request.model_path, digest);
  });
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  if (options_.metrics != nullptr && !absl::IsCancelled(made.status())) {
    options_.metrics->CompileDone(request.target, made.ok(), seconds);
  }
  if (!made.ok()) {
    telemetry::LogWarning("compile failed", {{"model", request.label},
                                             {"target", request.target},
                                             {"key", key.hex},
                                             {"seconds", seconds},
                                             {"log", job.log_path},
                                             {"error", made.status().ToString()}});
    return made.status();
  }
  telemetry::LogInfo("compile done", {{"model", request.label},
                                      {"target", request.target},
                                      {"key", key.hex},
                                      {"seconds", seconds}});
  return Landing{*std::move(made), false};
}

absl::Status StoreImpl::TakeSlot(const Report& report, const Cancelled& cancelled) {
  absl::MutexLock lock(&slots_mutex_);
  if (compiling_ >= options_.parallel_compiles) report({"queued", 0, ""});
  while (compiling_ >= options_.parallel_compiles) {
    slot_free_.WaitWithTimeout(&slots_mutex_, absl::Milliseconds(50));
    if (cancelled()) return absl::CancelledError("cancelled before the compile began");
  }
  ++compiling_;
  return absl::OkStatus();
}

void StoreImpl::GiveSlot() {
  absl::MutexLock lock(&slots_mutex_);
  --compiling_;
  slot_free_.Signal();
}

absl::StatusOr<std::string> StoreImpl::ExplainMiss(const CompileRequest& request) {
  const std::string path = Absolute(request.model_path);
  const absl::StatusOr<ModelDigests::Digest> digest = digests_.Of(path);
  if (!digest.ok()) return digest.status();
  const std::vector<Cache::Listing> cached = cache_->List();
  if (CanCompile()) {
    const absl::StatusOr<CompilerIdentity> compiler = Identity(nullptr);
    if (compiler.ok()) {
      const absl::StatusOr<ArtifactKey> key = WantedKey(request, digest->sha256, *compiler);
      if (!key.ok()) return key.status();
      return Explain(*key, {}, cached);
    }
  }
  const absl::StatusOr<Matches> matches = MatchCached(request, digest->sha256, cached);
  if (!matches.ok()) return matches.status();
  return Explain(matches->asked, matches->unknown, cached);
}

ArtifactStore::Usage StoreImpl::GetUsage() const {
  const Cache::Totals totals = cache_->GetTotals();
  Usage usage;
  usage.bytes = totals.bytes;
  usage.artifacts = totals.artifacts;
  usage.evictions = totals.evictions;
  usage.evicted_bytes = totals.evicted_bytes;
  usage.damaged = totals.damaged;
  absl::MutexLock lock(&usage_mutex_);
  usage.hits = hits_;
  usage.misses = misses_;
  return usage;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArtifactStore>> ArtifactStore::Open(StoreOptions options) {
  options = Normal(std::move(options));
  auto cache = Cache::Open({.dir = options.dir,
                            .quota_bytes = options.quota_bytes,
                            .keep_all = options.artifacts_only},
                           *options.files, options.metrics);
  if (!cache.ok()) return cache.status();
  return std::make_unique<StoreImpl>(std::move(options), *std::move(cache));
}

absl::StatusOr<std::string> CompileToFolder(
    const CompileRequest& request, const StoreOptions& store_options, const std::string& out_dir,
    const std::function<void(const CompileProgress&)>& progress,
    const std::function<bool()>& cancelled) {
  StoreOptions options = store_options;
  options.dir = out_dir;
  options = Normal(std::move(options));
  FileSystem& files = *options.files;
  ModelDigests digests(files);
  WorkerJob job;
  job.model_path = Absolute(request.model_path);
  job.target = request.target;
  job.options_json = request.options_json.empty() ? "{}" : request.options_json;
  const absl::StatusOr<ModelDigests::Digest> digest = digests.Of(job.model_path);
  if (!digest.ok()) return digest.status();
  const Worker worker(options, files);
  const absl::StatusOr<CompilerIdentity> compiler = worker.Describe(cancelled);
  if (!compiler.ok()) return compiler.status();
  // What else lies there stays: the folder is the caller's.
  const auto cache = Cache::Open({.dir = options.dir, .sweep = false}, files, nullptr);
  if (!cache.ok()) return cache.status();

  absl::StatusOr<ArtifactKey> key = absl::UnknownError("not known before the compile");
  if (!request.driver.empty()) {
    key = WantedKey(request, digest->sha256, *compiler);
    if (!key.ok()) return key.status();
    if (absl::Status s = CheckSameTorch(request, *compiler); !s.ok()) return s;
    if ((*cache)->Find(key->hex).ok()) return key->hex;
    job.key = &*key;
    const auto isa = request.driver.find("isa");
    if (isa != request.driver.end()) job.isa = isa->second;
  }
  const auto made = CompileInto(**cache, worker, files, job, progress, cancelled, [&] {
    return digests.CheckUnchanged(job.model_path, *digest);
  });
  if (!made.ok()) return made.status();
  return (*made)->manifest().key;
}

}  // namespace belfry::artifacts
