#include "server/cli/sample_flags.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/cli/exit_code.h"

namespace belfry::cli {
namespace {

absl::StatusOr<std::map<std::string, int64_t>> ParseSizes(const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> sizes;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    int64_t size = 0;
    if (equals == std::string::npos || !absl::SimpleAtoi(text.substr(equals + 1), &size) ||
        size < 1) {
      return UsageError(absl::StrCat("--size: got '", text, "', expected SYMBOL=N"));
    }
    sizes[text.substr(0, equals)] = size;
  }
  return sizes;
}

absl::StatusOr<std::vector<NamedTensor>> ReadInputs(const std::vector<std::string>& texts,
                                                    const ModelInputs& model) {
  std::vector<NamedTensor> out;
  for (const std::string& text : texts) {
    auto input = ReadInput(text, model);
    if (!input.ok()) return input.status();
    const bool twice = std::any_of(out.begin(), out.end(),
                                   [&](const NamedTensor& t) { return t.first == input->first; });
    if (twice) return UsageError(absl::StrCat("--input ", input->first, " is given twice"));
    out.push_back(*std::move(input));
  }
  for (const InputSpec& spec : model.inputs) {
    const bool given = std::any_of(out.begin(), out.end(),
                                   [&](const NamedTensor& t) { return t.first == spec.name; });
    if (!given) return UsageError(absl::StrCat("input '", spec.name, "' is missing"));
  }
  return out;
}

}  // namespace

void SampleFlags::Bind(FlagSet* flags) {
  flags->Add("Flags", "version", StringValue(&version, "N"),
             "Version of the model. Default: the server's choice.");
  flags->Add("Flags", "input", ListValue(&inputs, "NAME[:DATATYPE]=VALUE"),
             "VALUE is @FILE.npy, @FILE.json or JSON such as [[1,2],[3,4]]; values are brought to "
             "the datatype of the model. With one input 'NAME=' may be left out.");
  flags->Add("Flags", "rows", IntValue(&rows, 1, 1 << 20), "Rows of made-up inputs.");
  flags->Add("Flags", "size", ListValue(&sizes, "SYMBOL=N"),
             "Size of another symbolic dimension of made-up inputs. Default: 16, within its "
             "range.");
}

absl::StatusOr<inference::ModelInferRequest> SampleFlags::Request(Client* client,
                                                                  const std::string& model,
                                                                  bool make_up) const {
  const auto symbol_sizes = ParseSizes(sizes);
  if (!symbol_sizes.ok()) return symbol_sizes.status();
  const auto config = client->ModelConfig(model, version);
  if (!config.ok()) return config.status();
  const auto wanted = InputsOf(*config);
  if (!wanted.ok()) return wanted.status();
  const auto tensors = inputs.empty() && make_up ? MakeInputs(*wanted, rows, *symbol_sizes)
                                                 : ReadInputs(inputs, *wanted);
  if (!tensors.ok()) return tensors.status();
  return MakeRequest(model, version, *tensors);
}

}  // namespace belfry::cli
