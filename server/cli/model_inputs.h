// What a model takes, and tensors for it: from the command line or made up.
#ifndef BELFRY_SERVER_CLI_MODEL_INPUTS_H_
#define BELFRY_SERVER_CLI_MODEL_INPUTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/open_inference.pb.h"
#include "server/cli/tensor.h"

namespace belfry::cli {

struct InputSpec {
  std::string name;
  DataType dtype = DataType::kInvalid;  // kInvalid: any dtype and any shape
  std::vector<std::string> dims;        // "7", "batch", "2*batch"
};

struct ModelInputs {
  std::vector<InputSpec> inputs;
  std::string batch_symbol;  // empty: none
  // Smallest and largest value of each symbol; INT64_MAX: no bound.
  std::map<std::string, std::pair<int64_t, int64_t>> symbols;
};

// From the ModelConfig answer: its parameters "belfry.shape.NAME",
// "belfry.symbol.NAME" and "belfry.batch_symbol".
absl::StatusOr<ModelInputs> InputsOf(const inference::ModelConfig& config);

using NamedTensor = std::pair<std::string, Tensor>;

// One --input: NAME[:DATATYPE]=VALUE, where VALUE is @FILE.npy, @FILE.json or
// JSON; "NAME[:DATATYPE]=" may be left out where the model has one input. The
// tensor is brought to the datatype that the model wants. Errors are of usage or
// of local files.
absl::StatusOr<NamedTensor> ReadInput(const std::string& text, const ModelInputs& model);

// The same values for the same arguments, plausible for most models: floats
// from -1 to 1, integers 1 (a token, a category, a mask), true, short strings.
// 'sizes' gives symbols their value; the batch symbol is 'rows', others default
// to 16 within their range.
absl::StatusOr<std::vector<NamedTensor>> MakeInputs(const ModelInputs& model, int64_t rows,
                                                    const std::map<std::string, int64_t>& sizes);

// Raw contents, in the order of 'inputs'.
inference::ModelInferRequest MakeRequest(const std::string& model, const std::string& version,
                                         const std::vector<NamedTensor>& inputs);

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_MODEL_INPUTS_H_
