#include "device/manifest/manifest.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "device/channel/json.h"
#include "device/manifest/paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kHash(64, 'a');

json Good() {
  return {
      {"format", 1},
      {"key", kHash},
      {"key_fields",
       {{"model_sha256", kHash},
        {"target", "cpu"},
        {"driver", "cpu/1"},
        {"arch", "x86_64"},
        {"isa", "avx512"},
        {"torch", "2.13.0+cpu"},
        {"compiler", "0.1.0+abc"},
        {"options", {{"precision", "float32"}, {"buckets", {1, 8}}, {"deterministic", false}}}}},
      {"target", "cpu"},
      {"inputs",
       {{{"name", "x"},
         {"dtype", "FP32"},
         {"shape", {"batch", 30, "seq", "2*seq"}},
         {"batch_axis", 0},
         {"pad", 0.5}},
        {{"name", "ids"}, {"dtype", "INT64"}, {"shape", {7, "batch"}}, {"batch_axis", 1},
         {"pad", -1}}}},
      {"outputs",
       {{{"name", "output"}, {"dtype", "FP32"}, {"shape", {"batch", 1}}, {"batch_axis", 0}}}},
      {"symbols", {{"batch", {{"min", 1}, {"max", 1024}}}, {"seq", {{"min", 2}}}}},
      {"batch", {{"batchable", true}, {"reason", ""}, {"symbol", "batch"}, {"fixed", 0}}},
      {"files",
       {{{"path", "model.so"}, {"sha256", kHash}, {"bytes", 123}},
        {{"path", "data/weights.bin"}, {"sha256", kHash}, {"bytes", 0}}}},
      {"entry", {{"kind", "aoti"}, {"path", "model.so"}}},
      {"report", {{"seconds", 8.1}, {"numerics", {{"max_abs", 1.5e-7}}}, {"more", {1, 2}}}},
      {"from_the_future", {1, 2, 3}},
  };
}

TEST(ManifestTest, TellsEverything) {
  const auto m = ParseManifest(Good().dump());
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ(m->format, 1);
  EXPECT_EQ(m->key, kHash);
  EXPECT_EQ(m->key_fields.at("torch"), "2.13.0+cpu");
  EXPECT_EQ(m->key_fields.at("options.precision"), "float32");
  EXPECT_EQ(m->key_fields.at("options.buckets"), "[1,8]");
  EXPECT_EQ(m->key_fields.at("options.deterministic"), "false");
  EXPECT_EQ(m->target, "cpu");
  const Signature& s = m->signature;
  ASSERT_EQ(s.inputs.size(), 2u);
  EXPECT_EQ(s.inputs[0].name, "x");
  EXPECT_EQ(s.inputs[0].dtype, DataType::kFp32);
  ASSERT_EQ(s.inputs[0].dims.size(), 4u);
  EXPECT_EQ(s.inputs[0].dims[0].kind, Dim::Kind::kSymbol);
  EXPECT_EQ(s.inputs[0].dims[0].text, "batch");
  EXPECT_EQ(s.inputs[0].dims[1].kind, Dim::Kind::kFixed);
  EXPECT_EQ(s.inputs[0].dims[1].size, 30);
  EXPECT_EQ(s.inputs[0].dims[3].kind, Dim::Kind::kExpression);
  EXPECT_EQ(s.inputs[0].pad_value, 0.5);
  EXPECT_EQ(s.inputs[1].batch_axis, 1);
  EXPECT_EQ(s.inputs[1].pad_value, -1);
  EXPECT_EQ(s.outputs[0].name, "output");
  EXPECT_EQ(s.symbols.at("batch").max, 1024);
  EXPECT_EQ(s.symbols.at("seq").min, 2);
  EXPECT_EQ(s.symbols.at("seq").max, INT64_MAX);
  EXPECT_TRUE(s.batchable);
  EXPECT_EQ(s.batch_symbol, "batch");
  EXPECT_EQ(s.fixed_batch, 0);
  EXPECT_FALSE(s.any_tensor);
  ASSERT_EQ(m->files.size(), 2u);
  EXPECT_EQ(m->files[0].bytes, 123u);
  EXPECT_EQ(m->entry_kind, "aoti");
  EXPECT_EQ(m->entry_path, "model.so");
  EXPECT_EQ(m->compile_seconds, 8.1);
  EXPECT_EQ(m->max_abs_error, 1.5e-7);
  EXPECT_EQ(json::parse(m->report_json)["more"], (json{1, 2}));
}

TEST(ManifestTest, AFixedBatchAxis) {
  json j = Good();
  j["batch"] = {{"batchable", true}, {"reason", ""}, {"symbol", ""}, {"fixed", 16}};
  j["inputs"] = {{{"name", "x"}, {"dtype", "BOOL"}, {"shape", {7, 16}}, {"batch_axis", 1}}};
  j["outputs"][0]["shape"] = {16};
  const auto m = ParseManifest(j.dump());
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ(m->signature.fixed_batch, 16);
  EXPECT_EQ(m->signature.batch_symbol, "");
}

TEST(ManifestTest, AModelThatIsNotBatchedAndTakesScalars) {
  json j = Good();
  j["batch"] = {{"batchable", false}, {"reason", "rows see each other"}, {"symbol", ""},
                {"fixed", 0}};
  j["inputs"] = json::array({{{"name", "x"}, {"dtype", "FP64"}, {"shape", json::array()}}});
  j["outputs"][0]["batch_axis"] = -1;
  const auto m = ParseManifest(j.dump());
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_FALSE(m->signature.batchable);
  EXPECT_EQ(m->signature.unbatched_reason, "rows see each other");
  EXPECT_EQ(m->signature.inputs[0].batch_axis, -1);
}

TEST(ManifestTest, AnEntryMayBeAFolderOfFiles) {
  json j = Good();
  j["entry"]["path"] = "data";
  EXPECT_TRUE(ParseManifest(j.dump()).ok());
  j["entry"]["path"] = "dat";
  EXPECT_FALSE(ParseManifest(j.dump()).ok());
}

TEST(ManifestTest, EveryFieldIsRequired) {
  for (const char* name : {"format", "key", "key_fields", "target", "inputs", "outputs", "symbols",
                           "batch", "files", "entry", "report"}) {
    json j = Good();
    j.erase(name);
    const auto m = ParseManifest(j.dump());
    EXPECT_EQ(m.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(m.status().message()), HasSubstr(name));
  }
}

struct Fault {
  const char* pointer;  // where
  json value;           // what
  const char* message;  // is answered by
};

TEST(ManifestTest, EveryFieldIsChecked) {
  const json deep = json::parse("[[1]]");
  const Fault faults[] = {
      {"/format", 2, "format is 2"},
      {"/format", "1", "format is \"1\""},
      {"/key", std::string(64, 'A'), "64 lower-case hex"},
      {"/key", std::string(63, 'a'), "64 lower-case hex"},
      {"/key_fields", 7, "key_fields is 7"},
      {"/key_fields/isa", 7, "key_fields.isa is 7"},
      {"/key_fields/model_sha256", "x", "key_fields.model_sha256"},
      {"/key_fields/options/precision", std::string(5000, 'x'), "key_fields.options.precision"},
      {"/target", "spyre", "key_fields.target"},
      {"/inputs", "x", "inputs is \"x\""},
      {"/inputs/0/name", "", "inputs[0].name"},
      {"/inputs/0/name", std::string(257, 'x'), "inputs[0].name"},
      {"/inputs/0/name", std::string("a\0b", 3), "inputs[0].name"},
      {"/inputs/1/name", "x", "inputs[1].name is \"x\", expected each name only once"},
      {"/inputs/0/dtype", "fp32", "inputs[0].dtype is \"fp32\""},
      {"/inputs/0/dtype", "INVALID", "inputs[0].dtype"},
      {"/inputs/0/shape", 3, "inputs[0].shape is 3"},
      {"/inputs/0/shape", json(std::vector<int>(13, 1)), "13 elements, expected at most 12"},
      {"/inputs/0/shape/1", -1, "inputs[0].shape[1] is -1"},
      {"/inputs/0/shape/1", 1.5, "inputs[0].shape[1] is 1.5"},
      {"/inputs/0/shape/1", "unknown", "inputs[0].shape[1] is \"unknown\""},
      {"/inputs/0/shape/1", "", "inputs[0].shape[1]"},
      {"/inputs/0/shape/1", deep, "inputs[0].shape[1]"},
      {"/inputs/0/batch_axis", 4, "inputs[0].batch_axis is 4"},
      {"/inputs/0/batch_axis", -2, "inputs[0].batch_axis is -2"},
      {"/inputs/0/batch_axis", 1, "inputs[0].batch_axis is 1, expected the axis whose size"},
      {"/inputs/0/batch_axis", -1, "inputs[0].batch_axis is -1"},
      {"/inputs/0/pad", "0", "inputs[0].pad"},
      {"/inputs/1/pad", 0.5, "inputs[1].pad is 0.5, expected a value of INT64"},
      {"/outputs", json::array(), "at least one"},
      {"/outputs/0/batch_axis", 1, "outputs[0].batch_axis"},
      {"/symbols", json::array(), "symbols"},
      {"/symbols/batch/min", -1, "symbols.batch.min is -1"},
      {"/symbols/batch/max", 0, "symbols.batch.max is 0"},
      {"/symbols/2x", {{"min", 1}}, "2x"},
      {"/batch/batchable", 1, "batch.batchable is 1"},
      {"/batch/batchable", false, "batch.reason"},
      {"/batch/symbol", "rows", "batch.symbol is \"rows\""},
      {"/batch/symbol", "seq", "inputs[0].batch_axis"},
      {"/batch/fixed", 5, "either a symbol or a fixed size"},
      {"/files", json::array(), "at least one file"},
      {"/files/0/path", "../model.so", "files[0].path"},
      {"/files/0/path", "/etc/passwd", "files[0].path"},
      {"/files/0/path", "a//b", "files[0].path"},
      {"/files/0/path", "a/./b", "files[0].path"},
      {"/files/0/path", "a\\b", "files[0].path"},
      {"/files/0/path", "manifest.json", "files[0].path"},
      {"/files/1/path", "model.so", "only once"},
      {"/files/0/sha256", "", "files[0].sha256"},
      {"/files/0/bytes", -1, "files[0].bytes is -1"},
      {"/entry/kind", "", "entry.kind"},
      {"/entry/path", "other.so", "entry.path is \"other.so\""},
      {"/entry/path", "..", "entry.path"},
      {"/report", 1, "report is 1"},
      {"/report/seconds", -1, "report.seconds is -1"},
      {"/report/seconds", "8", "report.seconds is \"8\""},
      {"/report/numerics/max_abs", "x", "report.numerics.max_abs"},
  };
  for (const Fault& fault : faults) {
    json j = Good();
    j[json::json_pointer(fault.pointer)] = fault.value;
    const auto m = ParseManifest(j.dump());
    EXPECT_EQ(m.status().code(), absl::StatusCode::kInvalidArgument) << fault.pointer;
    EXPECT_THAT(std::string(m.status().message()), HasSubstr(fault.message)) << fault.pointer;
  }
}

TEST(ManifestTest, CountsAndDepthAreLimited) {
  json j = Good();
  for (int i = 0; i < 200; ++i) {
    j["inputs"].push_back({{"name", absl::StrCat("i", i)},
                           {"dtype", "FP32"},
                           {"shape", {"batch"}},
                           {"batch_axis", 0}});
  }
  EXPECT_THAT(std::string(ParseManifest(j.dump()).status().message()), HasSubstr("at most 128"));

  j = Good();
  for (int i = 0; i < 65; ++i) j["symbols"][absl::StrCat("s", i)] = {{"min", 1}};
  EXPECT_THAT(std::string(ParseManifest(j.dump()).status().message()), HasSubstr("symbols"));

  const std::string deep = absl::StrCat(R"({"format":1,"x":)", std::string(100000, '['));
  EXPECT_THAT(std::string(ParseManifest(deep).status().message()), HasSubstr("deeper"));
  EXPECT_THAT(std::string(ParseManifest(std::string((16 << 20) + 1, ' ')).status().message()),
              HasSubstr("at most"));
}

TEST(ManifestTest, AnyDamageGivesAValueOrAnError) {
  const std::string good = Good().dump();
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    std::string text = good;
    const size_t at = random() % text.size();
    switch (random() % 4) {
      case 0: text[at] = static_cast<char>(random()); break;
      case 1: text.resize(at); break;
      case 2: text.erase(at, 1 + random() % 20); break;
      default: text.insert(at, text.substr(random() % text.size(), random() % 30));
    }
    const auto m = ParseManifest(text);
    EXPECT_TRUE(m.ok() || absl::IsInvalidArgument(m.status())) << m.status();
  }
}

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "manifest_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(ManifestTest, IsReadFromAFolder) {
  TempDir dir;
  EXPECT_EQ(ReadManifest(dir.path()).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(dir.path() + "/manifest.json") << Good().dump();
  EXPECT_TRUE(ReadManifest(dir.path()).ok());
  std::ofstream(dir.path() + "/manifest.json") << "{";
  EXPECT_THAT(std::string(ReadManifest(dir.path()).status().message()),
              HasSubstr("manifest.json: not JSON"));
}

TEST(PathsTest, StayInside) {
  TempDir dir;
  std::filesystem::create_directory(dir.path() + "/sub");
  std::ofstream(dir.path() + "/sub/file") << "x";
  std::filesystem::create_symlink("/etc", dir.path() + "/out");
  std::filesystem::create_symlink("sub/file", dir.path() + "/in");
  EXPECT_TRUE(ResolveInside(dir.path(), "sub/file").ok());
  EXPECT_TRUE(ResolveInside(dir.path(), "in").ok());
  EXPECT_THAT(std::string(ResolveInside(dir.path(), "out/passwd").status().message()),
              HasSubstr("outside"));
  EXPECT_FALSE(ResolveInside(dir.path(), "missing").ok());
  for (const char* bad : {"", ".", "..", "/", "/etc", "a/../b", "a/", "a//b", "./a", "a\nb"}) {
    EXPECT_FALSE(IsSafeRelativePath(bad)) << bad;
    EXPECT_FALSE(ResolveInside(dir.path(), bad).ok()) << bad;
  }
}

TEST(ManifestTest, EchoTakesAnyTensor) {
  const Signature s = EchoSignature();
  EXPECT_TRUE(s.any_tensor);
  EXPECT_TRUE(s.batchable);
  ASSERT_EQ(s.inputs.size(), 1u);
  ASSERT_EQ(s.outputs.size(), 1u);
}

}  // namespace
}  // namespace belfry
