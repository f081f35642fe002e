// An artifact store that compiles what a test says, when it says so.
#ifndef BELFRY_SERVER_SERVING_FAKE_STORE_H_
#define BELFRY_SERVER_SERVING_FAKE_STORE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/artifacts/store.h"
#include "server/base/files.h"

namespace belfry::serving {

// x: FP32 [batch, 4] -> y: FP32 [batch, 4]
inline Signature FakeRows() {
  const auto tensor = [](std::string name) {
    return TensorSpec{.name = std::move(name),
                      .dtype = DataType::kFp32,
                      .dims = {{.kind = Dim::Kind::kSymbol, .text = "batch"},
                               {.kind = Dim::Kind::kFixed, .size = 4}},
                      .batch_axis = 0};
  };
  Signature s;
  s.inputs = {tensor("x")};
  s.outputs = {tensor("y")};
  s.symbols["batch"] = {1, 64};
  s.batchable = true;
  s.batch_symbol = "batch";
  return s;
}

class FakeArtifact : public artifacts::ArtifactRef {
 public:
  FakeArtifact(std::string dir, Manifest manifest, bool cached, std::atomic<int>* pins)
      : dir_(std::move(dir)), manifest_(std::move(manifest)), cached_(cached), pins_(pins) {
    pins_->fetch_add(1);
  }
  ~FakeArtifact() override { pins_->fetch_sub(1); }
  const std::string& dir() const override { return dir_; }
  const Manifest& manifest() const override { return manifest_; }
  bool was_cached() const override { return cached_; }

 private:
  const std::string dir_;
  const Manifest manifest_;
  const bool cached_;
  std::atomic<int>* const pins_;
};

// Thread-safe once set up.
class FakeStore : public artifacts::ArtifactStore {
 public:
  using Progress = std::function<void(const artifacts::CompileProgress&)>;
  using Cancelled = std::function<bool()>;

  // Before an artifact is given; an error is given in its place. May block.
  std::function<absl::Status(const artifacts::CompileRequest&, const Progress&, const Cancelled&)>
      on_get;
  // Changes the manifest that is given.
  std::function<void(const artifacts::CompileRequest&, Manifest&)> on_manifest;
  // The artifact's folder.
  std::function<std::string(const artifacts::CompileRequest&)> dir_of;
  std::atomic<bool> cached{false};
  std::atomic<int> gets{0};
  std::atomic<int> pins{0};  // artifacts that are held

  absl::StatusOr<std::shared_ptr<artifacts::ArtifactRef>> Get(
      const artifacts::CompileRequest& request, Progress progress, Cancelled cancelled) override {
    gets.fetch_add(1);
    if (on_get) {
      if (auto status = on_get(request, progress, cancelled); !status.ok()) return status;
    }
    Manifest manifest;
    manifest.key = "key-of-" + request.label;
    manifest.target = request.target;
    manifest.signature = FakeRows();
    manifest.entry_kind = "aoti";
    manifest.compile_seconds = 8.5;
    manifest.report_json = R"({"kernels": 7})";
    manifest.files = {{"model.so", "", 1000}, {"weights", "", 24}};
    const auto sha256 = FileSystem::Real().Sha256File(request.model_path);
    if (!sha256.ok()) return sha256.status();
    manifest.key_fields["model_sha256"] = *sha256;
    if (on_manifest) on_manifest(request, manifest);
    return std::make_shared<FakeArtifact>(dir_of ? dir_of(request) : "/artifact",
                                          std::move(manifest), cached.load(), &pins);
  }
  absl::StatusOr<std::string> ExplainMiss(const artifacts::CompileRequest& request) override {
    return "torch: 2.12.0, now 2.13.0";
  }
  Usage GetUsage() const override { return {.bytes = 4096}; }
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_FAKE_STORE_H_
