#include "server/artifacts/key.h"

#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/artifacts/testing.h"

namespace belfry::artifacts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

KeyParts Parts(std::string options = R"({"precision":"float32"})") {
  return {.model_sha256 = std::string(64, 'a'),
          .target = "cpu",
          .driver = "cpu/1",
          .arch = "x86_64",
          .isa = "avx512",
          .torch = "2.13.0+cpu",
          .compiler = "0.1.0+0123456789ab",
          .options_json = std::move(options)};
}

// The sums were computed by Python:
// hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")))
TEST(KeyTest, EqualsPythonOnFixedVectors) {
  EXPECT_EQ(MakeKey(Parts())->hex,
            "6f62364ce1d996bb06a2015c178d5fc5d0f3aaf79d144fceec00894a7419d926");
  EXPECT_EQ(MakeKey(Parts(R"({"rtol":1e-05,"atol":0.0001,"pad":{"x":-1.5,"y":0.0},)"
                          R"("buckets":{"s":[16,32]},"precision":"float32"})"))
                ->hex,
            "f7293bf2fff8083b7aa85ffc853aaa7a0a5aefb4859966652a89d3dad8078156");
  EXPECT_EQ(MakeKey(Parts("{\"output_names\":[\"\xc3\xa9\",\"\\u0001\\\"\",\"\xf0\x9f\x94\x94\"],"
                          "\"deterministic\":true,\"max_batch\":9007199254740993}"))
                ->hex,
            "cf6594923861a88bbfeb99d0c73cdc025d8fb48fe838638076e4ce0d1b3b38a0");
}

TEST(KeyTest, SpellingOfTheOptionsDoesNotMatter) {
  EXPECT_EQ(MakeKey(Parts(R"({"rtol": 1e-4, "max_batch": 3})"))->hex,
            MakeKey(Parts(R"({"max_batch":3,"rtol":0.0001})"))->hex);
}

TEST(KeyTest, EveryFieldChangesTheKey) {
  const std::string base = MakeKey(Parts())->hex;
  std::string KeyParts::*const kFields[] = {
      &KeyParts::model_sha256, &KeyParts::target, &KeyParts::driver,  &KeyParts::arch,
      &KeyParts::isa,          &KeyParts::torch,  &KeyParts::compiler};
  for (auto field : kFields) {
    KeyParts parts = Parts();
    parts.*field += "x";
    EXPECT_NE(MakeKey(parts)->hex, base);
    parts.*field = "";
    EXPECT_TRUE(absl::IsInvalidArgument(MakeKey(parts).status()));
  }
  EXPECT_NE(MakeKey(Parts(R"({"precision":"float32","rtol":0.1})"))->hex, base);
  for (const char* bad : {"", "null", "[]", "{", "3"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(MakeKey(Parts(bad)).status())) << bad;
  }
}

TEST(KeyTest, ReadsBackFromAManifest) {
  const ArtifactKey key = *MakeKey(Parts(R"({"rtol":1e-05})"));
  const auto back = KeyOfManifest(absl::StrCat("{\"key_fields\": ", key.canonical, "}"));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->hex, key.hex);
  EXPECT_EQ(back->fields.at("options.rtol"), "1e-05");
  EXPECT_FALSE(KeyOfManifest("{}").ok());
  EXPECT_FALSE(KeyOfManifest("{\"key_fields\": 1}").ok());
  EXPECT_FALSE(KeyOfManifest("rubbish").ok());
}

TEST(KeyTest, NamesTheFieldsThatDiffer) {
  KeyParts other = Parts(R"({"precision":"float32","rtol":0.1})");
  other.torch = "2.12.0";
  EXPECT_THAT(DifferingFields(*MakeKey(Parts()), *MakeKey(other)),
              ElementsAre("options.rtol: cached nothing, asked for '0.1'",
                          "torch: cached '2.13.0+cpu', asked for '2.12.0'"));
  EXPECT_TRUE(SameExcept(*MakeKey(Parts()), *MakeKey(other), {"torch", "options.rtol"}));
  EXPECT_FALSE(SameExcept(*MakeKey(Parts()), *MakeKey(other), {"torch"}));
}

TEST(KeyTest, KnowsAKey) {
  EXPECT_TRUE(IsKey(std::string(64, 'a')));
  EXPECT_FALSE(IsKey(std::string(63, 'a')));
  EXPECT_FALSE(IsKey(std::string(64, 'A')));
  EXPECT_FALSE(IsKey(std::string(63, 'a') + "/"));
}

// Against the compiler's own function, on numbers of every size.
TEST(KeyTest, EqualsTheCompilersFunction) {
  TempFolder folder;
  std::mt19937_64 random(11);
  std::string lines, expected;
  for (int i = 0; i < 2000; ++i) {
    double number;
    const uint64_t bits = random();
    std::memcpy(&number, &bits, sizeof(number));
    if (i % 2 == 0) number = static_cast<double>(static_cast<int64_t>(bits)) / (1 << (i % 30));
    if (!std::isfinite(number)) continue;
    const auto key = MakeKey(Parts(nlohmann::json({{"rtol", number}, {"max_batch", bits}}).dump()));
    ASSERT_TRUE(key.ok());
    absl::StrAppend(&lines, key->canonical, "\n");
    absl::StrAppend(&expected, key->hex, "\n");
  }
  WriteText(folder / "lines", lines);
  WriteText(folder / "run.py",
            "import json, sys\n"
            "from belfry_compiler.canonical import key_of\n"
            "for line in open(sys.argv[1]):\n"
            "    print(key_of(json.loads(line)))\n");
  const std::string command =
      absl::StrCat("PYTHONPATH='", BELFRY_COMPILER_DIR, "' '", BELFRY_PLAIN_PYTHON, "' '",
                   folder / "run.py", "' '", folder / "lines", "' > '", folder / "out", "'");
  ASSERT_EQ(system(command.c_str()), 0);
  EXPECT_EQ(ReadText(folder / "out"), expected);
}

}  // namespace
}  // namespace belfry::artifacts
