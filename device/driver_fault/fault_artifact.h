// Writes artifacts for the driver 'fault'. Header only, for tests.
#ifndef BELFRY_DEVICE_DRIVER_FAULT_FAULT_ARTIFACT_H_
#define BELFRY_DEVICE_DRIVER_FAULT_FAULT_ARTIFACT_H_

#include <sys/utsname.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace belfry {

// The manifest of a model with one FP32 input "x" [batch, 4] and one output
// "output" [batch, 4]. Tests may change it before they write it.
inline nlohmann::json FaultManifest() {
  const std::string sum(64, '0');
  struct utsname host = {};
  uname(&host);
  const nlohmann::json tensor = {
      {"dtype", "FP32"}, {"shape", {"batch", 4}}, {"batch_axis", 0}};
  nlohmann::json input = tensor, output = tensor;
  input["name"] = "x";
  output["name"] = "output";
  return {
      {"format", 1},
      {"key", sum},
      {"key_fields",
       {{"model_sha256", sum},
        {"target", "fault"},
        {"driver", "fault/1"},
        {"arch", std::string(host.machine)},
        {"isa", "none"},
        {"torch", "none"},
        {"compiler", "none"},
        {"options", nlohmann::json::object()}}},
      {"target", "fault"},
      {"inputs", nlohmann::json::array({input})},
      {"outputs", nlohmann::json::array({output})},
      {"symbols", {{"batch", {{"min", 1}, {"max", 1024}}}}},
      {"batch", {{"batchable", true}, {"reason", ""}, {"symbol", "batch"}, {"fixed", 0}}},
      {"files", nlohmann::json::array({{{"path", "fault.json"}, {"sha256", sum}, {"bytes", 2}}})},
      {"entry", {{"kind", "fault"}, {"path", "fault.json"}}},
      {"report", {{"seconds", 0.0}}},
  };
}

// 'rules' as README.md says. Creates 'dir'.
inline void WriteFaultArtifact(const std::string& dir, const nlohmann::json& rules,
                               const nlohmann::json& manifest = FaultManifest()) {
  std::filesystem::create_directories(dir);
  std::ofstream(dir + "/fault.json") << rules.dump();
  std::ofstream(dir + "/manifest.json") << manifest.dump();
}

}  // namespace belfry

#endif  // BELFRY_DEVICE_DRIVER_FAULT_FAULT_ARTIFACT_H_
