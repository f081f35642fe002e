// belfry health [NAME]
#include "absl/strings/str_cat.h"
#include "server/cli/verbs.h"

namespace belfry::cli {
namespace {

class Health final : public Verb {
 public:
  std::string name() const override { return "health"; }
  std::string summary() const override {
    return "whether the server, or a model, can be asked now";
  }
  std::string operands() const override { return "[NAME]"; }
  std::string details() const override {
    return "Ends with 0 if it is ready and with 1 if not.\n"
           "JSON: live, ready.\n";
  }
  size_t min_operands() const override { return 0; }
  size_t max_operands() const override { return 1; }
  bool has_json() const override { return true; }
  absl::Duration default_timeout() const override { return absl::Seconds(5); }
  void Bind(FlagSet* flags) override {
    flags->Add("Flags", "version", StringValue(&version_, "N"), "Of the model.");
  }

  absl::Status Run(const std::vector<std::string>& operands) override {
    if (auto status = client().ServerLive(); !status.ok()) return status;
    const auto ready = operands.empty() ? client().ServerReady()
                                        : client().ModelReady(operands[0], version_);
    if (!ready.ok()) return ready.status();
    if (json) {
      PrintJson({{"live", true}, {"ready", *ready}});
    } else {
      Print(*ready ? "ready\n" : "live, not ready\n");
    }
    if (*ready) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(operands.empty() ? "the server" : operands[0], " is not ready"));
  }

 private:
  std::string version_;
};

}  // namespace

std::unique_ptr<Verb> MakeHealth() { return std::make_unique<Health>(); }

}  // namespace belfry::cli
