// belfry show NAME [VERSION]
#include "server/cli/proto_json.h"
#include "server/cli/verbs.h"
#include "server/cli/version_text.h"

namespace belfry::cli {
namespace {

class Show final : public Verb {
 public:
  std::string name() const override { return "show"; }
  std::string summary() const override { return "everything about a model's versions"; }
  std::string operands() const override { return "NAME [VERSION]"; }
  std::string details() const override {
    return "JSON: a list of VersionDetail of proto/registry.proto: summary (see 'belfry models'),\n"
           "signature, batching, artifacts (target, key, cache_hit, compile_seconds, report,\n"
           "...), metrics, model_path, model_sha256, config_yaml.\n";
  }
  size_t min_operands() const override { return 1; }
  size_t max_operands() const override { return 2; }
  bool has_json() const override { return true; }
  void Bind(FlagSet* flags) override {
    flags->Add("Flags", "explain-cache-miss", SwitchValue(&explain_),
               "Also why the artifact was not in the cache: the fields of its key in which the "
               "nearest one differs.");
  }

  absl::Status Run(const std::vector<std::string>& operands) override {
    v1::ShowRequest request;
    request.set_name(operands[0]);
    const auto version = ParseVersion(operands.size() > 1 ? operands[1] : "");
    if (!version.ok()) return version.status();
    request.set_version(*version);
    request.set_explain_cache_miss(explain_);
    const auto response = client().Show(request);
    if (!response.ok()) return response.status();
    if (json) {
      PrintJson(ProtoToJson(*response)["versions"]);
      return absl::OkStatus();
    }
    for (int i = 0; i < response->versions_size(); ++i) {
      if (i > 0) Print("\n");
      Print(DetailText(response->versions(i)));
    }
    return absl::OkStatus();
  }

 private:
  bool explain_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeShow() { return std::make_unique<Show>(); }

}  // namespace belfry::cli
