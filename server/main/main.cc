// belfryd: the inference server.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "server/base/files.h"
#include "server/main/config.h"
#include "server/main/daemon.h"
#include "server/main/stop_signal.h"
#include "server/rpc/grpc_log.h"
#include "server/telemetry/log.h"

namespace belfry {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kSecondSignal = 3;
constexpr uint64_t kMaxConfigBytes = 1 << 20;

ConfigSources RealSources(int argc, char** argv) {
  ConfigSources sources;
  sources.args.assign(argv + 1, argv + argc);
  sources.environment = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  sources.read_file = [](const std::string& name) {
    return FileSystem::Real().ReadFile(name, kMaxConfigBytes);
  };
  return sources;
}

void SetUpLog(const Config& config) {
  using telemetry::LogLevel;
  telemetry::SetLogFormat(config.log_format == "json" ? telemetry::LogFormat::kJson
                                                      : telemetry::LogFormat::kText);
  telemetry::SetLogLevel(config.log_level == "debug"     ? LogLevel::kDebug
                         : config.log_level == "warning" ? LogLevel::kWarning
                         : config.log_level == "error"   ? LogLevel::kError
                                                         : LogLevel::kInfo);
}

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "belfryd: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? kUsage : kFailed;
}

int Serve(const Config& config) {
  Daemon daemon(config);
  StopSignal stop([&daemon] {
    telemetry::LogWarning("second signal: ends at once, requests in flight are lost");
    daemon.KillCards();
    _exit(kSecondSignal);
  });
  if (const auto status = daemon.Start([&stop] { stop.Request("an admin"); }); !status.ok()) {
    daemon.Close();  // while 'stop' still lives
    return Complain(status);
  }
  telemetry::LogInfo("stopping", {{"asked_by", stop.Wait()}});
  daemon.Stop();
  telemetry::LogInfo("stopped");
  return 0;
}

int Main(int argc, char** argv) {
  BlockStopSignals();
  const auto config = LoadConfig(RealSources(argc, argv));
  if (!config.ok()) {
    Complain(config.status());
    std::fprintf(stderr, "belfryd --help shows all flags\n");
    return kUsage;
  }
  if (config->help) {
    std::fputs(ConfigHelp().c_str(), stdout);
    return 0;
  }
  if (config->version) {
    std::puts("belfryd " BELFRY_VERSION);
    return 0;
  }
  SetUpLog(*config);
  rpc::SendGrpcLogToOurs();
  return Serve(*config);
}

}  // namespace
}  // namespace belfry

int main(int argc, char** argv) { return belfry::Main(argc, argv); }
