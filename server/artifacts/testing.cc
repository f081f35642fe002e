#include "server/artifacts/testing.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/telemetry/log.h"

namespace belfry::artifacts {
namespace {

// The tests of faults would otherwise drown their own output.
const bool kQuiet = [] {
  telemetry::SetLogLevel(telemetry::LogLevel::kError);
  return true;
}();

}  // namespace

TempFolder::TempFolder() {
  static_cast<void>(kQuiet);
  path_ = FileSystem::RealUnsynced().CreateTempDir(::testing::TempDir() + "artifacts-").value();
}

TempFolder::~TempFolder() {
  FileSystem::RealUnsynced().RemoveTree(path_).IgnoreError();
  FileSystem::RealUnsynced().RemoveTree(path_ + ".graveyard").IgnoreError();
}

ArtifactKey WriteArtifact(const std::string& dir, std::string_view model, std::string_view payload,
                          std::string_view compiler) {
  using nlohmann::json;
  KeyParts parts = {.model_sha256 = Sha256Hex(model),
                    .target = "cpu",
                    .driver = "cpu/1",
                    .arch = "any",
                    .isa = "default",
                    .torch = "9.9.9",
                    .compiler = std::string(compiler),
                    .options_json = R"({"precision":"float32"})"};
  const ArtifactKey key = MakeKey(parts).value();
  const json tensor = {{"name", "x"}, {"dtype", "FP32"}, {"shape", {"batch", 2}},
                       {"batch_axis", 0}};
  json input = tensor, output = tensor;
  input["pad"] = 0;
  output["name"] = "output";
  const json manifest = {
      {"format", 1},
      {"key", key.hex},
      {"key_fields", json::parse(key.canonical)},
      {"target", "cpu"},
      {"inputs", json::array({input})},
      {"outputs", json::array({output})},
      {"symbols", {{"batch", {{"min", 1}, {"max", 64}}}}},
      {"batch", {{"batchable", true}, {"reason", ""}, {"symbol", "batch"}, {"fixed", 0}}},
      {"files",
       json::array({{{"path", "data/code.bin"},
                     {"sha256", Sha256Hex(payload)},
                     {"bytes", payload.size()}}})},
      {"entry", {{"kind", "aoti"}, {"path", "data/code.bin"}}},
      {"report",
       {{"seconds", 1.5},
        {"stages", json::array()},
        {"kernels", 1},
        {"fallbacks", json::array()},
        {"numerics",
         {{"max_abs", 0}, {"max_rel", 0}, {"worst", "output"}, {"rtol", 0}, {"atol", 0},
          {"checked", json::array()}}},
        {"rows", {{"checked", true}, {"independent", true}, {"detail", ""}}},
        {"deterministic", {{"checked", false}, {"size", 0}}}}}};
  EXPECT_TRUE(FileSystem::RealUnsynced().CreateDir(JoinPath(dir, "data")).ok());
  WriteText(JoinPath(dir, "data/code.bin"), payload);
  WriteText(JoinPath(dir, "manifest.json"), manifest.dump(1));
  return key;
}

void WriteText(const std::string& path, std::string_view text) {
  const absl::Status status = FileSystem::RealUnsynced().WriteFile(path, text);
  EXPECT_TRUE(status.ok()) << status;
}

std::string ReadText(const std::string& path) {
  const auto text = FileSystem::RealUnsynced().ReadFile(path, 64 << 20);
  return text.ok() ? *text : "";
}

bool Exists(const std::string& path) { return FileSystem::RealUnsynced().Stat(path).ok(); }

}  // namespace belfry::artifacts
