// belfry metadata [NAME]
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/cli/proto_json.h"
#include "server/cli/table.h"
#include "server/cli/verbs.h"

namespace belfry::cli {
namespace {

class Metadata final : public Verb {
 public:
  std::string name() const override { return "metadata"; }
  std::string summary() const override { return "what the server, or a model, says of itself"; }
  std::string operands() const override { return "[NAME]"; }
  std::string details() const override {
    return "JSON: the message of the Open Inference Protocol: name, version, extensions; or name,\n"
           "versions, platform, inputs, outputs (name, datatype, shape; -1 is any size).\n";
  }
  size_t min_operands() const override { return 0; }
  size_t max_operands() const override { return 1; }
  bool has_json() const override { return true; }
  void Bind(FlagSet* flags) override {
    flags->Add("Flags", "version", StringValue(&version_, "N"), "Of the model.");
  }

  absl::Status Run(const std::vector<std::string>& operands) override {
    return operands.empty() ? OfServer() : OfModel(operands[0]);
  }

 private:
  absl::Status OfServer() {
    const auto metadata = client().ServerMetadata();
    if (!metadata.ok()) return metadata.status();
    if (json) {
      PrintJson(ProtoToJson(*metadata));
    } else {
      Print(absl::StrCat(metadata->name(), " ", metadata->version(), "\nextensions: ",
                         absl::StrJoin(metadata->extensions(), " "), "\n"));
    }
    return absl::OkStatus();
  }

  absl::Status OfModel(const std::string& model) {
    const auto metadata = client().ModelMetadata(model, version_);
    if (!metadata.ok()) return metadata.status();
    if (json) {
      PrintJson(ProtoToJson(*metadata));
      return absl::OkStatus();
    }
    Print(absl::StrCat(metadata->name(), "  ", metadata->platform(), "  versions ",
                       absl::StrJoin(metadata->versions(), ", "), "\n"));
    Table table({{""}, {"NAME"}, {"DATATYPE"}, {"SHAPE"}});
    for (const auto& tensor : metadata->inputs()) AddRow("input", tensor, &table);
    for (const auto& tensor : metadata->outputs()) AddRow("output", tensor, &table);
    Print(table.ToString());
    return absl::OkStatus();
  }

  static void AddRow(const char* kind,
                     const inference::ModelMetadataResponse::TensorMetadata& tensor,
                     Table* table) {
    const bool any = tensor.datatype().empty();
    table->Add({kind, tensor.name(), any ? "any" : tensor.datatype(),
                any ? "any" : absl::StrCat("[", absl::StrJoin(tensor.shape(), ","), "]")});
  }

  std::string version_;
};

}  // namespace

std::unique_ptr<Verb> MakeMetadata() { return std::make_unique<Metadata>(); }

}  // namespace belfry::cli
