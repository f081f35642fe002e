// belfry models
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/cli/proto_json.h"
#include "server/cli/table.h"
#include "server/cli/verbs.h"
#include "server/cli/version_text.h"

namespace belfry::cli {
namespace {

class Models final : public Verb {
 public:
  std::string name() const override { return "models"; }
  std::string summary() const override { return "list versions and their states"; }
  std::string operands() const override { return "[NAME]"; }
  std::string details() const override {
    return "JSON: a list of VersionSummary of proto/registry.proto: name, version, state, reason,\n"
           "default_version, aliases, targets, cards, progress, ready_unix_seconds.\n";
  }
  size_t min_operands() const override { return 0; }
  size_t max_operands() const override { return 1; }
  bool has_json() const override { return true; }

  absl::Status Run(const std::vector<std::string>& operands) override {
    v1::ListRequest request;
    if (!operands.empty()) request.set_name(operands[0]);
    const auto response = client().List(request);
    if (!response.ok()) return response.status();
    if (!operands.empty() && response->versions().empty()) {
      return absl::NotFoundError(absl::StrCat("there is no model '", operands[0], "'"));
    }
    if (json) {
      PrintJson(ProtoToJson(*response)["versions"]);
    } else {
      Print(TableOf(*response));
    }
    return absl::OkStatus();
  }

 private:
  static std::string TableOf(const v1::ListResponse& response) {
    Table table({{"MODEL"}, {"VERSION", Table::Align::kRight}, {"STATE"}, {"CARDS"}, {""}});
    for (const auto& version : response.versions()) {
      std::string note = version.default_version() ? "default" : "";
      if (version.has_progress()) note = ProgressText(version.progress());
      if (!version.reason().empty()) {
        note = absl::StrCat(note, note.empty() ? "" : "; ", FirstLine(version.reason()));
      }
      table.Add({version.name(), absl::StrCat(version.version()), StateName(version.state()),
                 absl::StrJoin(version.cards(), ","), note});
    }
    return table.ToString();
  }

  static std::string FirstLine(const std::string& text) {
    const std::string line = text.substr(0, text.find('\n'));
    return line.size() <= 120 ? line : line.substr(0, 117) + "...";
  }
};

}  // namespace

std::unique_ptr<Verb> MakeModels() { return std::make_unique<Models>(); }

}  // namespace belfry::cli
