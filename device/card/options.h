// The command line of belfry-card.
#ifndef BELFRY_DEVICE_CARD_OPTIONS_H_
#define BELFRY_DEVICE_CARD_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace belfry::card {

struct Options {
  enum class Mode { kServe, kDescribe, kHelp };
  Mode mode = Mode::kServe;
  std::string driver;
  std::string driver_dir;          // empty: beside the program, ../lib, ../lib/belfry
  std::string driver_json = "{}";
  int index = 0;
  int threads = 1;
  int channel_fd = -1;
  int control_fd = -1;
  std::vector<int> cores;          // empty: those of the parent
  uint64_t memory_bytes = 0;       // 0: the driver's own default
  absl::Duration spin;             // before the execution thread sleeps
};

extern const char kHelp[];

// INVALID_ARGUMENT names the flag, what came and what was expected. Flags are
// written "--name value" or "--name=value".
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args);

}  // namespace belfry::card

#endif  // BELFRY_DEVICE_CARD_OPTIONS_H_
