// The store with the real compiler. Needs an interpreter that has torch: the
// environment variable BELFRY_PYTHON, which ctest sets where CMake knows one.
#include <stdlib.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/artifacts/store.h"
#include "server/artifacts/testing.h"
#include "server/artifacts/worker.h"

namespace belfry::artifacts {
namespace {

using ::testing::HasSubstr;

constexpr char kMakeModel[] = R"(
import sys, torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(30, 4)
    def forward(self, x):
        return torch.sigmoid(self.layer(x))
torch.manual_seed(0)
batch = torch.export.Dim("batch", min=1, max=64)
program = torch.export.export(Net().eval(), (torch.randn(2, 30),), dynamic_shapes={"x": {0: batch}})
torch.export.save(program, sys.argv[1])
)";

class StoreCompileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* python = getenv("BELFRY_PYTHON");
    if (python == nullptr || *python == '\0') {
      GTEST_SKIP() << "BELFRY_PYTHON names no interpreter with torch";
    }
    options_.dir = folder_ / "artifacts";
    options_.python = python;
    options_.compiler_dir = BELFRY_COMPILER_DIR;
    const auto identity =
        Worker(options_, FileSystem::Real()).Describe([] { return false; });
    ASSERT_TRUE(identity.ok()) << identity.status();
    request_.model_path = folder_ / "model.pt2";
    request_.target = "cpu";
    request_.options_json = R"({"precision":"float32"})";
    request_.driver = {{"driver", "cpu/1"},
                       {"arch", identity->arch},
                       {"isa", identity->isa},
                       {"torch", identity->torch}};
    request_.label = "net/1";
  }
  void MakeModel() {
    WriteText(folder_ / "make.py", kMakeModel);
    const std::string command = absl::StrCat("'", options_.python, "' '", folder_ / "make.py",
                                             "' '", request_.model_path, "'");
    ASSERT_EQ(system(command.c_str()), 0);
  }

  TempFolder folder_;
  StoreOptions options_;
  CompileRequest request_;
};

TEST_F(StoreCompileTest, CompilesARealModelThatServesElsewhere) {
  MakeModel();
  std::string key;
  {
    auto store = ArtifactStore::Open(options_).value();
    std::vector<std::string> stages;
    auto got = store->Get(
        request_, [&](const CompileProgress& p) { stages.push_back(p.stage); }, nullptr);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_FALSE((*got)->was_cached());
    key = (*got)->manifest().key;
    const Signature& signature = (*got)->manifest().signature;
    ASSERT_EQ(signature.inputs.size(), 1u);
    EXPECT_EQ(signature.inputs[0].name, "x");
    EXPECT_TRUE(signature.batchable) << signature.unbatched_reason;
    EXPECT_THAT(stages, ::testing::IsSupersetOf({"load", "inductor", "numerics", "package"}));
  }
  // Copied to a host that has no compiler.
  TempFolder host;
  ASSERT_EQ(
      system(absl::StrCat("cp -r '", options_.dir, "/", key, "' '", host.path(), "/'").c_str()), 0);
  StoreOptions there;
  there.dir = host.path();
  there.artifacts_only = true;
  auto store = ArtifactStore::Open(there).value();
  auto got = store->Get(request_, nullptr, nullptr);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE((*got)->was_cached());
  EXPECT_EQ((*got)->manifest().key, key);
}

TEST_F(StoreCompileTest, RubbishIsABadModelInTheCompilersWords) {
  WriteText(request_.model_path, "this is no zip archive");
  auto store = ArtifactStore::Open(options_).value();
  const auto got = store->Get(request_, nullptr, nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(got.status())) << got.status();
}

TEST_F(StoreCompileTest, TooLittleMemoryIsResourceExhausted) {
  MakeModel();
  options_.compile_memory_bytes = 96 << 20;  // less than torch itself
  auto store = ArtifactStore::Open(options_).value();
  const auto got = store->Get(request_, nullptr, nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(got.status())) << got.status();
}

}  // namespace
}  // namespace belfry::artifacts
