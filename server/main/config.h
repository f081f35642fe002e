// Everything that belfryd can be told, and where it may be told.
#ifndef BELFRY_SERVER_MAIN_CONFIG_H_
#define BELFRY_SERVER_MAIN_CONFIG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/main/flags.h"

namespace belfry {

struct Config {
  // Models.
  std::string data_dir;
  std::string model_dir;
  std::vector<std::string> load_root;
  std::string version_policy = "latest";

  // Listeners.
  std::string listen = "127.0.0.1:8001";
  std::string metrics_listen = "127.0.0.1:8002";
  std::string admin_listen = "127.0.0.1:8003";
  int64_t rpc_queues = 0;
  int64_t max_message_mb = 128;
  int64_t max_in_flight_mb = 1024;

  // Cards.
  std::string cards = "cpu:1";
  int64_t cores_per_card = 1;
  bool pin = false;
  int64_t arena_mb = 128;
  int64_t card_memory_mb = 0;
  std::string card_binary;

  // Artifacts.
  bool artifacts_only = false;
  double cache_quota_gb = 20;
  std::string python = "python3";
  std::string compiler_dir;
  absl::Duration compile_timeout = absl::Minutes(30);
  int64_t compile_memory_mb = 12 * 1024;
  int64_t parallel_compiles = 1;

  // Life.
  absl::Duration lame_duck = absl::ZeroDuration();
  absl::Duration drain_timeout = absl::Seconds(30);

  // Log.
  std::string log_format = "text";
  std::string log_level = "info";

  // About the program itself.
  std::string config;
  bool help = false;
  bool version = false;
};

// The one table: every flag, its YAML key and its environment variable.
void BindConfig(Config* config, FlagSet* flags);

// "data-dir" -> "BELFRY_DATA_DIR".
std::string EnvironmentName(const std::string& flag);

struct ConfigSources {
  std::vector<std::string> args;  // without the program's name
  std::function<std::optional<std::string>(const std::string&)> environment;
  std::function<absl::StatusOr<std::string>(const std::string&)> read_file;
};

// Flags win over the environment, the environment over the file, the file over
// the defaults; a list is replaced as a whole. INVALID_ARGUMENT names every
// fault of a source at once. With --help or --version nothing else is looked at.
absl::StatusOr<Config> LoadConfig(const ConfigSources& sources);

// A YAML map of flag names. INVALID_ARGUMENT with the line.
absl::StatusOr<FlagLayer> ParseConfigFile(const std::string& text, const std::string& name,
                                          const FlagSet& flags);

// The whole text of --help.
std::string ConfigHelp();

}  // namespace belfry

#endif  // BELFRY_SERVER_MAIN_CONFIG_H_
