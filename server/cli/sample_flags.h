// The flags by which a model and made-up inputs are described: infer and bench.
#ifndef BELFRY_SERVER_CLI_SAMPLE_FLAGS_H_
#define BELFRY_SERVER_CLI_SAMPLE_FLAGS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/cli/client.h"
#include "server/cli/model_inputs.h"
#include "server/main/flags.h"

namespace belfry::cli {

struct SampleFlags {
  std::string version;
  std::vector<std::string> inputs;  // --input
  int64_t rows = 1;
  std::vector<std::string> sizes;   // --size SYMBOL=N

  void Bind(FlagSet* flags);
  // The request that the flags describe: the inputs given, or made up if none
  // is. Asks the server what the model takes.
  absl::StatusOr<inference::ModelInferRequest> Request(Client* client, const std::string& model,
                                                       bool make_up) const;
};

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_SAMPLE_FLAGS_H_
