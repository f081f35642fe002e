// The real belfry-card with the driver cpu and a real artifact: the folder that
// BELFRY_TEST_ARTIFACT names (any that 'python -m belfry_compiler compile' made).
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "device/card/card_process.h"
#include "device/card/warm_inputs.h"
#include "device/channel/json.h"
#include "device/manifest/expression.h"
#include "device/manifest/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::card {
namespace {

using channel::Outcome;
using ::testing::HasSubstr;

constexpr uint32_t kModel = 5;

class CpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* dir = getenv("BELFRY_TEST_ARTIFACT");
    if (dir == nullptr) GTEST_SKIP() << "BELFRY_TEST_ARTIFACT names no artifact";
    dir_ = dir;
    auto manifest = ReadManifest(dir_);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    manifest_ = *std::move(manifest);
    card_.emplace(std::vector<std::string>{"--driver", "cpu", "--threads", "1"}, 16 << 20,
                  16 << 20);
    const auto hello = card_->Hello();
    ASSERT_TRUE(hello.ok()) << hello.status();
    EXPECT_EQ(hello->describe.at("torch"), manifest_.key_fields.at("torch"));
  }

  // A batch of this many rows; other symbols at 8 or the nearest allowed value.
  SymbolValues Shape(int64_t batch) const {
    SymbolValues values;
    for (const auto& [name, range] : manifest_.signature.symbols) {
      const int64_t wanted = name == manifest_.signature.batch_symbol ? batch : 8;
      values[name] = std::clamp(wanted, range.min, range.max);
    }
    return values;
  }

  std::vector<TestTensor> Inputs(int64_t batch) const {
    std::vector<TestTensor> inputs;
    for (const TensorSpec& spec : manifest_.signature.inputs) {
      TestTensor t{spec.dtype, {}, {}};
      size_t elements = 1;
      for (const Dim& dim : spec.dims) {
        t.dims.push_back(*EvaluateDim(dim, Shape(batch)));
        elements *= static_cast<size_t>(t.dims.back());
      }
      for (size_t i = 0; i < elements; ++i) Append(spec.dtype, i % 2, &t.data);
      inputs.push_back(std::move(t));
    }
    return inputs;
  }

  // Zero or one in any type.
  static void Append(DataType dtype, bool one, std::vector<uint8_t>* out) {
    uint8_t bytes[8] = {};
    if (dtype == DataType::kFp32) {
      const float value = one;
      memcpy(bytes, &value, sizeof value);
    } else if (dtype == DataType::kFp64) {
      const double value = one;
      memcpy(bytes, &value, sizeof value);
    } else if (dtype != DataType::kFp16 && dtype != DataType::kBf16) {
      bytes[0] = one;
    }
    out->insert(out->end(), bytes, bytes + DataTypeSize(dtype));
  }

  void ExpectGood(const std::optional<TestAnswer>& answer, int64_t batch) {
    ASSERT_TRUE(answer.has_value());
    ASSERT_EQ(answer->outcome, Outcome::kOk) << answer->message;
    const auto& specs = manifest_.signature.outputs;
    ASSERT_EQ(answer->tensors.size(), specs.size());
    for (size_t i = 0; i < specs.size(); ++i) {
      EXPECT_EQ(answer->tensors[i].dtype, specs[i].dtype);
      ASSERT_EQ(answer->tensors[i].dims.size(), specs[i].dims.size());
      for (size_t d = 0; d < specs[i].dims.size(); ++d) {
        const auto size = EvaluateDim(specs[i].dims[d], Shape(batch));
        EXPECT_TRUE(!size.ok() || answer->tensors[i].dims[d] == *size) << i << ", axis " << d;
      }
    }
  }

  std::string dir_;
  Manifest manifest_;
  std::optional<CardProcess> card_;
};

TEST_F(CpuTest, LoadsWarmsAndRuns) {
  const auto loaded = card_->Load(kModel, dir_);
  ASSERT_TRUE(loaded.status.ok()) << loaded.status;
  EXPECT_GT(loaded.resident_bytes, 0u);
  EXPECT_GT(loaded.memory_used, 0u);
  EXPECT_GT(loaded.memory_total, loaded.memory_used);
  channel::Request warm;
  warm.op = channel::Op::kWarm;
  warm.executable = kModel;
  for (int64_t batch : {1, 2, 8}) {
    const SymbolValues shape = Shape(batch);
    warm.shapes.emplace_back(shape.begin(), shape.end());
  }
  const auto warmed = card_->Ask(warm);
  ASSERT_TRUE(warmed.status.ok()) << warmed.status;
  for (int64_t batch : {1, 3, 8, 2}) {
    const auto first = card_->Run(kModel, Inputs(batch));
    ExpectGood(first, batch);
    const auto second = card_->Run(kModel, Inputs(batch));
    EXPECT_EQ(first->tensors, second->tensors);
  }
  ASSERT_TRUE(card_->Unload(kModel).status.ok());
  EXPECT_EQ(card_->Run(kModel, Inputs(1))->outcome, Outcome::kNoExecutable);
  ASSERT_TRUE(card_->Load(kModel, dir_).status.ok());
  ExpectGood(card_->Run(kModel, Inputs(2)), 2);
}

TEST_F(CpuTest, TwoOfTheSameArtifactLiveSideBySide) {
  ASSERT_TRUE(card_->Load(1, dir_).status.ok());
  ASSERT_TRUE(card_->Load(2, dir_).status.ok());
  const auto a = card_->Run(1, Inputs(4));
  ExpectGood(a, 4);
  ASSERT_TRUE(card_->Unload(1).status.ok());
  const auto b = card_->Run(2, Inputs(4));
  ExpectGood(b, 4);
  EXPECT_EQ(a->tensors, b->tensors);
}

TEST_F(CpuTest, WarmUpsRunBesideExecutions) {
  ASSERT_TRUE(card_->Load(kModel, dir_).status.ok());
  channel::Request warm;
  warm.op = channel::Op::kWarm;
  warm.executable = kModel;
  const SymbolValues shape = Shape(64);
  warm.shapes.assign(50, {shape.begin(), shape.end()});
  card_->Send(warm);
  for (int i = 0; i < 50; ++i) ExpectGood(card_->Run(kModel, Inputs(2)), 2);
  const auto reply = card_->Receive(absl::Seconds(60));
  ASSERT_TRUE(reply.ok());
  EXPECT_TRUE(reply->status.ok()) << reply->status;
}

// A copy of the artifact whose manifest or file is spoilt.
TEST_F(CpuTest, ArtifactsForOtherHostsAndBrokenOnesAreRefused) {
  std::string name = (std::filesystem::temp_directory_path() / "cpu_XXXXXX").string();
  const std::string copy = std::string(mkdtemp(name.data())) + "/artifact";
  std::filesystem::copy(dir_, copy, std::filesystem::copy_options::recursive);
  std::ifstream file(dir_ + "/manifest.json");
  const nlohmann::json good = nlohmann::json::parse(file);
  const std::pair<const char*, const char*> cases[] = {{"/key_fields/torch", "1.0.0"},
                                                       {"/key_fields/arch", "vax"},
                                                       {"/key_fields/isa", "avx4096"},
                                                       {"/key_fields/driver", "cpu/0"},
                                                       {"/entry/kind", "spyre-plan"}};
  for (const auto& [where, value] : cases) {
    nlohmann::json bad = good;
    bad[nlohmann::json::json_pointer(where)] = value;
    std::ofstream(copy + "/manifest.json") << bad.dump();
    const auto reply = card_->Load(kModel, copy);
    EXPECT_EQ(reply.status.code(), absl::StatusCode::kFailedPrecondition) << where;
    EXPECT_THAT(std::string(reply.status.message()), HasSubstr(value));
  }
  std::ofstream(copy + "/manifest.json") << good.dump();
  std::ofstream(copy + "/" + manifest_.entry_path) << "no shared object";
  EXPECT_EQ(card_->Load(kModel, copy).status.code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(card_->Load(kModel, dir_).status.ok());
  ExpectGood(card_->Run(kModel, Inputs(2)), 2);
  std::filesystem::remove_all(std::filesystem::path(copy).parent_path());
}

}  // namespace
}  // namespace belfry::card
