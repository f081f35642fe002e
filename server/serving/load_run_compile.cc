// From the .pt2 to an artifact in the cache, for each target.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/serving/load_run.h"
#include "server/serving/names.h"

namespace belfry::serving {
namespace {

bool SameDim(const Dim& a, const Dim& b) {
  return a.kind == b.kind && a.size == b.size && a.text == b.text;
}

bool SameTensor(const TensorSpec& a, const TensorSpec& b) {
  return a.name == b.name && a.dtype == b.dtype && a.batch_axis == b.batch_axis &&
         std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(), SameDim);
}

bool SameTensors(const std::vector<TensorSpec>& a, const std::vector<TensorSpec>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), SameTensor);
}

bool SameRange(const std::pair<const std::string, SymbolRange>& a,
               const std::pair<const std::string, SymbolRange>& b) {
  return a.first == b.first && a.second.min == b.second.min && a.second.max == b.second.max;
}

// A queue has one signature, and any of its cards may get any batch.
bool SameInterface(const Signature& a, const Signature& b) {
  return SameTensors(a.inputs, b.inputs) && SameTensors(a.outputs, b.outputs) &&
         a.batchable == b.batchable && a.batch_symbol == b.batch_symbol &&
         a.fixed_batch == b.fixed_batch &&
         std::equal(a.symbols.begin(), a.symbols.end(), b.symbols.begin(), b.symbols.end(),
                    SameRange);
}

ArtifactStatus Describe(const artifacts::ArtifactRef& artifact, std::string miss) {
  const Manifest& manifest = artifact.manifest();
  ArtifactStatus out{.target = manifest.target,
                     .key = manifest.key,
                     .cache_hit = artifact.was_cached(),
                     .compile_seconds = manifest.compile_seconds,
                     .max_abs_error = manifest.max_abs_error,
                     .report_json = manifest.report_json,
                     .miss = std::move(miss)};
  for (const ManifestFile& file : manifest.files) out.bytes += file.bytes;
  return out;
}

void ShowFirst(const ArtifactStatus& artifact, VersionStatus* status) {
  status->key = artifact.key;
  status->cache_hit = artifact.cache_hit;
  status->compile_seconds = artifact.cache_hit ? 0 : artifact.compile_seconds;
  status->report_json = artifact.report_json;
}

}  // namespace

absl::Status LoadRun::Compile() {
  if (auto status = Advance(VersionState::kUploaded, VersionState::kCompiling); !status.ok()) {
    return status;
  }
  if (!origin_.builtin.empty()) {
    signature_ = std::make_shared<const Signature>(EchoSignature());
    platform_ = origin_.builtin;
  }
  for (const Placement& placement : placements_) {
    const auto status = CompileFor(placement);
    if (stopped()) return absl::CancelledError("told to stop");
    if (!status.ok()) Lacks(absl::StrCat("target ", placement.target), status);
  }
  if (seats_.empty()) return NoneLeft();
  version_.SetPlatform(platform_, signature_);
  return Advance(VersionState::kCompiling, VersionState::kCompiled);
}

absl::Status LoadRun::CompileFor(const Placement& placement) {
  auto driver = loader_.Describe(placement.driver);
  if (!driver.ok()) return driver.status();
  const artifacts::CompileRequest request{.model_path = origin_.files.model_path,
                                          .target = placement.target,
                                          .options_json = CompileOptionsJson(config_),
                                          .driver = *std::move(driver),
                                          .label = version_.label()};
  version_.Edit([&](VersionStatus& status) {
    status.progress = {};
    status.progress_target = placement.target;
  });
  ArtifactStatus shown{.target = placement.target};
  auto artifact = Get(request, &shown);
  absl::Status accepted = artifact.ok() ? Accept(placement, (*artifact)->manifest())
                                        : artifact.status();
  version_.Edit([&](VersionStatus& status) {
    if (status.artifacts.empty() || status.key.empty()) ShowFirst(shown, &status);
    status.artifacts.push_back(shown);
  });
  if (!accepted.ok()) return accepted;
  for (cards::Card* card : placement.cards) seats_.push_back({card, (*artifact)->dir()});
  version_.HoldArtifact(*std::move(artifact));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<artifacts::ArtifactRef>> LoadRun::Get(
    const artifacts::CompileRequest& request, ArtifactStatus* shown) {
  // Asked beforehand: afterwards the nearest artifact is the new one itself.
  const auto miss = rooms_.store->ExplainMiss(request);
  shown->miss = miss.ok() ? *miss : std::string(miss.status().message());
  const MonoNs begun = rooms_.clock->Now();
  auto artifact = rooms_.store->Get(
      request,
      [this](const artifacts::CompileProgress& progress) {
        version_.Edit([&](VersionStatus& status) { status.progress = progress; });
      },
      [this] { return stopped(); });
  compile_ns_ += rooms_.clock->Now() - begun;
  if (artifact.ok()) {
    *shown = Describe(**artifact, (*artifact)->was_cached() ? "" : shown->miss);
  }
  return artifact;
}

absl::Status LoadRun::Accept(const Placement& placement, const Manifest& manifest) {
  if (manifest.target != placement.target) {
    return absl::InternalError(absl::StrCat("the artifact is for target ", manifest.target));
  }
  const auto sha256 = manifest.key_fields.find("model_sha256");
  if (sha256 != manifest.key_fields.end() && sha256->second != version_.Status().sha256) {
    return absl::AbortedError("the file was changed while it was being loaded");
  }
  if (signature_ == nullptr) {
    signature_ = std::make_shared<const Signature>(manifest.signature);
    platform_ = manifest.entry_kind;
    report_json_ = manifest.report_json;
    return absl::OkStatus();
  }
  if (SameInterface(*signature_, manifest.signature)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "inputs, outputs or batching differ from those of the target before it");
}

}  // namespace belfry::serving
