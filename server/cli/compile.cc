// belfry compile MODEL.pt2
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "server/artifacts/store.h"
#include "server/cards/pool.h"
#include "server/cli/exit_code.h"
#include "server/cli/table.h"
#include "server/cli/verbs.h"
#include "server/main/install_paths.h"
#include "server/serving/model_config.h"

namespace belfry::cli {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr double kRemindSeconds = 10;

std::atomic<bool> interrupted{false};

// The compiler runs as a child with children of its own, which must not outlive
// an interrupt.
void HandleInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = true; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

class Compile final : public Verb {
 public:
  std::string name() const override { return "compile"; }
  std::string summary() const override { return "compile a model on this host, without a server"; }
  std::string operands() const override { return "MODEL.pt2"; }
  std::string details() const override {
    return "Leaves the artifact in OUT/KEY/. Copied to DATA-DIR/artifacts/ of a host whose driver\n"
           "is the same, it serves there without Python or a compiler (belfryd --artifacts-only).\n"
           "A model.yaml beside the model counts as it does for the server.\n"
           "JSON: target, key, dir.\n";
  }
  size_t min_operands() const override { return 1; }
  size_t max_operands() const override { return 1; }
  bool has_json() const override { return true; }
  bool talks_to_server() const override { return false; }

  void Bind(FlagSet* flags) override {
    flags->Add("Flags", "target", StringValue(&target_, "TARGET"), "What to compile for.");
    flags->Add("Flags", "out", StringValue(&out_, "DIR"), "Where the artifact goes. Required.");
    flags->Add("Flags", "model-config", StringValue(&config_, "FILE"),
               "Instead of the model.yaml beside the model.");
    flags->Add("Flags", "python", StringValue(&python_, "FILE"),
               "Python interpreter that has torch.");
    flags->Add("Flags", "compiler-dir", StringValue(&compiler_dir_, "DIR"),
               "Folder that holds the package belfry_compiler. Default: found beside the program.");
    flags->Add("Flags", "card-binary", StringValue(&card_binary_, "FILE"),
               "belfry-card, which tells what its driver needs. Default: beside the program; if "
               "there is none, the compiler compiles for this host.");
    flags->Add("Flags", "compile-timeout", DurationValue(&timeout_), "Longest time.");
    flags->Add("Flags", "compile-memory-mb", IntValue(&memory_mb_, 256, 1 << 26, "MIB"),
               "Most memory, MiB.");
  }

  absl::Status Run(const std::vector<std::string>& operands) override {
    if (out_.empty()) return UsageError("--out is needed: the folder for the artifact");
    const auto request = RequestFor(operands[0]);
    if (!request.ok()) return request.status();
    HandleInterrupts();
    const auto key = artifacts::CompileToFolder(
        *request, Options(), out_,
        [this](const artifacts::CompileProgress& progress) { Tell(progress); },
        [] { return interrupted.load(); });
    if (!key.ok()) return key.status();
    const std::string dir = (std::filesystem::path(out_) / *key).string();
    if (json) {
      PrintJson({{"target", target_}, {"key", *key}, {"dir", dir}});
    } else {
      Print(dir + "\n");
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<artifacts::CompileRequest> RequestFor(const std::string& model) const {
    if (access(model.c_str(), R_OK) != 0) return LocalError("cannot read " + model);
    const auto config = Config(model);
    if (!config.ok()) return config.status();
    artifacts::CompileRequest request;
    request.model_path = model;
    request.target = target_;
    request.options_json = serving::CompileOptionsJson(*config);
    request.label = std::filesystem::path(model).filename().string();
    const std::string card = card_binary_.empty() ? DefaultCardBinary() : card_binary_;
    if (card_binary_.empty() && access(card.c_str(), X_OK) != 0) return request;
    auto driver = cards::DescribeDriver(card, target_);
    if (!driver.ok()) return driver.status();
    request.driver = *std::move(driver);
    return request;
  }

  absl::StatusOr<serving::ModelConfig> Config(const std::string& model) const {
    std::string path = config_;
    if (path.empty()) {
      path = (std::filesystem::path(model).parent_path() / "model.yaml").string();
      if (access(path.c_str(), F_OK) != 0) return serving::ModelConfig();
    }
    const auto text = ReadFile(path);
    if (!text.ok()) return text.status();
    auto config = serving::ParseModelConfig(*text);
    if (config.ok()) return config;
    return absl::Status(config.status().code(),
                        absl::StrCat(path, ": ", config.status().message()));
  }

  artifacts::StoreOptions Options() const {
    artifacts::StoreOptions options;
    options.python = python_;
    options.compiler_dir = compiler_dir_.empty() ? DefaultCompilerDir() : compiler_dir_;
    options.compile_timeout = timeout_;
    options.compile_memory_bytes = static_cast<uint64_t>(memory_mb_ * kMiB);
    return options;
  }

  void Tell(const artifacts::CompileProgress& progress) {
    if (progress.stage.empty()) return;
    if (progress.stage == told_ && progress.seconds - told_at_ < kRemindSeconds) return;
    told_ = progress.stage;
    told_at_ = progress.seconds;
    Progress(absl::StrCat(target_, "  ", progress.stage, "  ", Seconds(progress.seconds)));
  }

  std::string target_ = "cpu";
  std::string out_, config_, compiler_dir_, card_binary_;
  std::string python_ = "python3";
  absl::Duration timeout_ = absl::Minutes(30);
  int64_t memory_mb_ = 12 * 1024;
  std::string told_;
  double told_at_ = 0;
};

}  // namespace

std::unique_ptr<Verb> MakeCompile() { return std::make_unique<Compile>(); }

}  // namespace belfry::cli
