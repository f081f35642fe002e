// belfry infer NAME
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/cli/exit_code.h"
#include "server/cli/npy.h"
#include "server/cli/sample_flags.h"
#include "server/cli/table.h"
#include "server/cli/tensor_json.h"
#include "server/cli/verbs.h"

namespace belfry::cli {
namespace {

absl::StatusOr<std::vector<NamedTensor>> OutputsOf(const inference::ModelInferResponse& response) {
  if (response.outputs_size() != response.raw_output_contents_size()) {
    return absl::InternalError("the answer has not one raw content for each output");
  }
  std::vector<NamedTensor> out;
  for (int i = 0; i < response.outputs_size(); ++i) {
    const auto& output = response.outputs(i);
    Tensor tensor;
    tensor.dtype = ParseDataType(output.datatype()).value_or(DataType::kInvalid);
    tensor.shape.assign(output.shape().begin(), output.shape().end());
    tensor.data = response.raw_output_contents(i);
    out.emplace_back(output.name(), std::move(tensor));
  }
  return out;
}

class Infer final : public Verb {
 public:
  std::string name() const override { return "infer"; }
  std::string summary() const override { return "ask a model"; }
  std::string operands() const override { return "NAME"; }
  std::string details() const override {
    return "example: belfry infer echo --input '[[1,2,3]]'\n"
           "JSON: model_name, model_version, seconds (of the last request), outputs: a list of\n"
           "name, datatype, shape, data (nested lists; \"NaN\", \"Infinity\"; {\"base64\": ...}\n"
           "for bytes that are no text).\n";
  }
  size_t min_operands() const override { return 1; }
  size_t max_operands() const override { return 1; }
  bool has_json() const override { return true; }
  void Bind(FlagSet* flags) override {
    sample_.Bind(flags);
    flags->Add("Flags", "sample", SwitchValue(&make_up_), "Make up the inputs.");
    flags->Add("Flags", "priority", IntValue(&priority_, 0, 3),
               "1 (urgent), 2 or 3; 0: the model's own.");
    flags->Add("Flags", "repeat", IntValue(&repeat_, 1, 1'000'000),
               "Ask so often, one after the other; the last answer is shown.");
    flags->Add("Flags", "out", ListValue(&out_, "NAME=FILE.npy"),
               "Write an output to a file instead of showing it.");
  }

  absl::Status Run(const std::vector<std::string>& operands) override {
    auto request = sample_.Request(&client(), operands[0], make_up_);
    if (!request.ok()) return request.status();
    if (priority_ > 0) (*request->mutable_parameters())["priority"].set_int64_param(priority_);

    absl::StatusOr<inference::ModelInferResponse> response;
    std::vector<double> seconds;
    for (int64_t i = 0; i < repeat_; ++i) {
      const absl::Time begin = absl::Now();
      response = client().Infer(*request);
      if (!response.ok()) return response.status();
      seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
    }
    auto outputs = OutputsOf(*response);
    if (!outputs.ok()) return outputs.status();
    if (auto status = WriteFiles(&*outputs); !status.ok()) return status;
    const double last = seconds.back();
    if (repeat_ > 1) TellTimes(std::move(seconds));
    return json ? ShowJson(*response, *outputs, last) : ShowText(*response, *outputs, last);
  }

 private:
  // Writes what --out names and takes it out of 'outputs'.
  absl::Status WriteFiles(std::vector<NamedTensor>* outputs) const {
    for (const std::string& text : out_) {
      const size_t equals = text.find('=');
      const std::string name = text.substr(0, equals);
      const auto at = std::find_if(outputs->begin(), outputs->end(),
                                   [&](const NamedTensor& t) { return t.first == name; });
      if (equals == std::string::npos || at == outputs->end()) {
        return UsageError(absl::StrCat("--out: got '", text,
                                       "', expected NAME=FILE.npy with an output of the model"));
      }
      const auto file = FormatNpy(at->second);
      if (!file.ok()) return LocalError(absl::StrCat(name, ": ", file.status().message()));
      if (auto status = WriteFile(text.substr(equals + 1), *file); !status.ok()) return status;
      Progress(absl::StrCat(name, "  ", Describe(at->second), "  -> ", text.substr(equals + 1)));
      outputs->erase(at);
    }
    return absl::OkStatus();
  }

  static void TellTimes(std::vector<double> seconds) {
    std::sort(seconds.begin(), seconds.end());
    Progress(absl::StrCat(seconds.size(), " requests: fastest ", Seconds(seconds.front()),
                          ", median ", Seconds(seconds[seconds.size() / 2]), ", slowest ",
                          Seconds(seconds.back())));
  }

  static absl::Status ShowJson(const inference::ModelInferResponse& response,
                               const std::vector<NamedTensor>& outputs, double seconds) {
    nlohmann::ordered_json out = {{"model_name", response.model_name()},
                                  {"model_version", response.model_version()},
                                  {"seconds", seconds},
                                  {"outputs", nlohmann::ordered_json::array()}};
    for (const auto& [name, tensor] : outputs) {
      const auto data = TensorToJson(tensor);
      if (!data.ok()) return data.status();
      out["outputs"].push_back({{"name", name},
                                {"datatype", std::string(DataTypeName(tensor.dtype))},
                                {"shape", tensor.shape},
                                {"data", *data}});
    }
    PrintJson(out);
    return absl::OkStatus();
  }

  static absl::Status ShowText(const inference::ModelInferResponse& response,
                               const std::vector<NamedTensor>& outputs, double seconds) {
    Progress(absl::StrCat(response.model_name(), " version ", response.model_version(), ", ",
                          Seconds(seconds)));
    for (const auto& [name, tensor] : outputs) {
      const auto text = TensorToText(tensor);
      if (!text.ok()) return text.status();
      Print(absl::StrCat(name, "  ", Describe(tensor), "\n", *text, "\n"));
    }
    return absl::OkStatus();
  }

  SampleFlags sample_;
  bool make_up_ = false;
  int64_t priority_ = 0;
  int64_t repeat_ = 1;
  std::vector<std::string> out_;
};

}  // namespace

std::unique_ptr<Verb> MakeInfer() { return std::make_unique<Infer>(); }

}  // namespace belfry::cli
