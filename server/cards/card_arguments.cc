#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/cards/supervisor.h"

namespace belfry::cards {

std::vector<std::string> CardArguments(const CardConfig& config, int channel_fd, int control_fd) {
  const PoolOptions& pool = config.pool;
  std::vector<std::string> arguments = {
      pool.card_binary,
      absl::StrCat("--driver=", config.driver),
      absl::StrCat("--index=", config.driver_index),
      absl::StrCat("--channel-fd=", channel_fd),
      absl::StrCat("--control-fd=", control_fd),
      absl::StrCat("--threads=", pool.cores_per_card),
      absl::StrCat("--memory=", pool.memory_bytes),
      absl::StrCat("--driver-json=", pool.driver_json),
  };
  if (!pool.driver_dir.empty()) arguments.push_back(absl::StrCat("--driver-dir=", pool.driver_dir));
  if (!config.cores.empty()) {
    arguments.push_back(absl::StrCat("--cores=", absl::StrJoin(config.cores, ",")));
  }
  return arguments;
}

}  // namespace belfry::cards
