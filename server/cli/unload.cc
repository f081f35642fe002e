// belfry unload NAME [VERSION]
#include "absl/strings/str_cat.h"
#include "server/cli/proto_json.h"
#include "server/cli/verbs.h"
#include "server/cli/version_text.h"

namespace belfry::cli {
namespace {

class Unload final : public Verb {
 public:
  std::string name() const override { return "unload"; }
  std::string summary() const override { return "take versions out of service"; }
  std::string operands() const override { return "NAME [VERSION]"; }
  std::string details() const override {
    return "Without VERSION all versions. Accepted requests are finished; the artifact stays in\n"
           "the cache. What is unloaded already is no error.\n"
           "JSON: a list of VersionSummary (see 'belfry models').\n";
  }
  size_t min_operands() const override { return 1; }
  size_t max_operands() const override { return 2; }
  bool has_json() const override { return true; }
  absl::Duration default_timeout() const override { return absl::Minutes(2); }
  void Bind(FlagSet* flags) override {
    flags->Add("Flags", "no-wait", SwitchValue(&no_wait_),
               "Do not wait for accepted requests to be finished.");
  }

  absl::Status Run(const std::vector<std::string>& operands) override {
    v1::UnloadRequest request;
    request.set_name(operands[0]);
    const auto version = ParseVersion(operands.size() > 1 ? operands[1] : "");
    if (!version.ok()) return version.status();
    request.set_version(*version);
    request.set_wait(!no_wait_);
    const auto response = client().Unload(request);
    if (!response.ok()) return response.status();
    if (json) {
      PrintJson(ProtoToJson(*response)["versions"]);
      return absl::OkStatus();
    }
    for (const auto& summary : response->versions()) {
      Print(absl::StrCat(summary.name(), " version ", summary.version(), " is ",
                         StateName(summary.state()), "\n"));
    }
    return absl::OkStatus();
  }

 private:
  bool no_wait_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeUnload() { return std::make_unique<Unload>(); }

}  // namespace belfry::cli
