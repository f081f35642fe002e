// model.yaml: what the exported program does not tell. The only parser of that
// file; the compiler receives the compile options as JSON from here.
#ifndef BELFRY_SERVER_SERVING_MODEL_CONFIG_H_
#define BELFRY_SERVER_SERVING_MODEL_CONFIG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace belfry::serving {

struct ModelConfig {
  // Serving.
  int64_t max_batch = 0;              // rows; 0: the symbol's own maximum, at most 1024
  std::vector<int64_t> batch_buckets; // ascending; empty: any size
  absl::Duration batch_delay = absl::ZeroDuration();  // from the oldest request
  int64_t max_queue = 8192;           // requests waiting
  uint32_t priority = 2;              // default of its requests: 1 (urgent), 2, 3
  absl::Duration default_deadline = absl::InfiniteDuration();
  absl::Duration watchdog = absl::Seconds(30);  // longest time of one batch
  std::vector<std::string> cards;     // "cpu", "cpu:0"; empty: all of the targets
  bool deterministic = false;
  bool batching = true;               // false: never join requests
  std::map<std::string, std::vector<std::string>> labels;  // output -> class names

  // Compile (these make up the options of the cache key).
  std::vector<std::string> targets;             // "cpu"; empty: the drivers that are there
  std::map<std::string, int> batch_axis;        // tensor -> axis
  std::map<std::string, std::vector<int64_t>> buckets;  // symbol -> ascending sizes
  std::map<std::string, double> pad;            // input -> value
  std::vector<std::string> output_names;
  std::string precision = "float32";
  std::optional<double> rtol, atol;
};

// INVALID_ARGUMENT with line, key, what came and what was expected; unknown
// keys are faults (with the nearest known key). All faults in one message.
// Any input gives a config or an error. The empty text is the default config.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view yaml);

// Canonical JSON of the compile options: same options, same text. Format:
// compiler/README.md.
std::string CompileOptionsJson(const ModelConfig& config);

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_MODEL_CONFIG_H_
