#include "server/rpc/metadata.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "device/channel/text.h"
#include "server/serving/version_state.h"

namespace belfry::rpc {
namespace {

void FillTensor(const TensorSpec& spec, bool any,
                inference::ModelMetadataResponse::TensorMetadata* out) {
  out->set_name(spec.name);
  if (any) {
    // Any dtype, any shape: the protocol has no word for it. BYTES with no
    // dimension given would be a lie; an empty datatype is at least visible.
    return;
  }
  out->set_datatype(std::string(DataTypeName(spec.dtype)));
  for (const Dim& dim : spec.dims) out->add_shape(WireDim(dim));
}

std::string DimText(const Dim& dim) {
  return dim.kind == Dim::Kind::kFixed ? absl::StrCat(dim.size) : dim.text;
}

std::string SignatureLine(std::string_view kind, const TensorSpec& spec, bool any) {
  std::string line = absl::StrCat(AbslView(kind), "  ", spec.name, "  ", DescribeTensor(spec, any));
  if (!any && spec.batch_axis >= 0) absl::StrAppend(&line, "  batch axis ", spec.batch_axis);
  return line;
}

}  // namespace

void DescribeServer(std::string_view version, inference::ServerMetadataResponse* response) {
  response->set_name("belfry");
  response->set_version(std::string(version));
  // Only what works. Clients test for these words.
  for (const char* extension :
       {"classification", "model_repository", "schedule_policy", "model_configuration",
        "binary_tensor_data", "parameters", "statistics"}) {
    response->add_extensions(extension);
  }
}

int64_t WireDim(const Dim& dim) { return dim.kind == Dim::Kind::kFixed ? dim.size : -1; }

std::string DescribeTensor(const TensorSpec& spec, bool any) {
  if (any) return "any dtype, any shape";
  return absl::StrCat(AbslView(DataTypeName(spec.dtype)), " [",
                      absl::StrJoin(spec.dims, ",",
                                    [](std::string* out, const Dim& dim) {
                                      absl::StrAppend(out, DimText(dim));
                                    }),
                      "]");
}

std::vector<std::string> DescribeSignature(const Signature& signature) {
  std::vector<std::string> lines;
  for (const auto& spec : signature.inputs) {
    lines.push_back(SignatureLine("input", spec, signature.any_tensor));
  }
  for (const auto& spec : signature.outputs) {
    lines.push_back(SignatureLine("output", spec, signature.any_tensor));
  }
  for (const auto& [symbol, range] : signature.symbols) {
    lines.push_back(absl::StrCat(
        "symbol  ", symbol, "  ", range.min, " to ",
        range.max == INT64_MAX ? std::string("any size") : absl::StrCat(range.max)));
  }
  return lines;
}

absl::StatusOr<std::shared_ptr<const Signature>> SignatureOf(const serving::VersionEntry& entry) {
  if (entry.signature != nullptr) return entry.signature;
  return absl::FailedPreconditionError(absl::StrCat(
      "model '", entry.model, "' version ", entry.version, " is ",
      AbslView(serving::VersionStateName(entry.state)), entry.reason.empty() ? "" : ": ",
      entry.reason, "; its tensors are not known yet"));
}

absl::Status DescribeModel(const serving::Catalog& catalog,
                           const inference::ModelMetadataRequest& request,
                           inference::ModelMetadataResponse* response) {
  const auto found = catalog.Find(request.name(), request.version());
  if (!found.ok()) return found.status();
  const serving::VersionEntry& entry = **found;
  const auto signature = SignatureOf(entry);
  if (!signature.ok()) return signature.status();

  response->set_name(entry.model);
  response->set_platform(entry.platform);
  for (const auto& other : catalog.List()) {
    if (other->model == entry.model && other->state == serving::VersionState::kReady) {
      response->add_versions(other->version);
    }
  }
  const bool any = (*signature)->any_tensor;
  for (const auto& spec : (*signature)->inputs) FillTensor(spec, any, response->add_inputs());
  for (const auto& spec : (*signature)->outputs) FillTensor(spec, any, response->add_outputs());
  return absl::OkStatus();
}

}  // namespace belfry::rpc
