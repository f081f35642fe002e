#include "server/artifacts/compiler_output.h"

#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/artifacts/testing.h"

namespace belfry::artifacts {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(JsonLinesTest, ReassemblesLinesFromPieces) {
  const std::string stream = "{\"a\":1}\n\n{\"a\":2}\nrubbish\n[1]\n{\"a\":3}";
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    std::vector<int> seen;
    JsonLines lines([&](const nlohmann::json& j) { seen.push_back(j["a"]); });
    for (size_t i = 0; i < stream.size(); i += piece) lines.Add(stream.substr(i, piece));
    lines.Finish();
    EXPECT_THAT(seen, ElementsAre(1, 2, 3));
    EXPECT_EQ(lines.dropped(), 2);
  }
}

TEST(JsonLinesTest, AnEndlessLineCostsNothingAndIsDropped) {
  std::vector<int> seen;
  JsonLines lines([&](const nlohmann::json& j) { seen.push_back(j["a"]); });
  for (int i = 0; i < 1000; ++i) lines.Add(std::string(10000, '['));
  lines.Add("\n{\"a\":7}\n");
  EXPECT_THAT(seen, ElementsAre(7));
  EXPECT_EQ(lines.dropped(), 1);
}

TEST(JsonLinesTest, RandomBytesNeverCrash) {
  std::mt19937 random(3);
  JsonLines lines([](const nlohmann::json&) {});
  const std::string alphabet = "{}[]\":,ue\\\n01\xff";
  for (int i = 0; i < 20000; ++i) {
    std::string piece;
    for (size_t n = random() % 20; n > 0; --n) piece += alphabet[random() % alphabet.size()];
    lines.Add(piece);
  }
}

TEST(BoundedLogTest, KeepsTheTail) {
  BoundedLog log("");
  log.Add(std::string(5000, 'a'));
  log.Add("end\x1b[31m\xff\n");
  EXPECT_THAT(log.Tail(), SizeIs(4096));
  EXPECT_THAT(log.Tail(), EndsWith("aend [31m?\n"));
}

TEST(BoundedLogTest, FileHasACapAndTheEnd) {
  TempFolder folder;
  {
    BoundedLog log(folder / "log");
    for (int i = 0; i < 3000; ++i) log.Add(std::string(1000, 'x'));
    log.Add("the cause");
  }
  const std::string text = ReadText(folder / "log");
  EXPECT_LT(text.size(), (1u << 20) + 5000);
  EXPECT_THAT(text, HasSubstr("[cut here"));
  EXPECT_THAT(text, EndsWith("the cause"));
}

TEST(BoundedLogTest, DoesWithoutAFile) {
  BoundedLog log("/no/such/folder/log");
  log.Add("text");
  EXPECT_EQ(log.Tail(), "text");
}

}  // namespace
}  // namespace belfry::artifacts
