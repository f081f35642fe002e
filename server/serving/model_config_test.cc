#include "server/serving/model_config.h"

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "device/channel/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/serving/config_reader.h"

namespace belfry::serving {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

ModelConfig Good(std::string_view yaml) {
  auto config = ParseModelConfig(yaml);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : ModelConfig();
}

std::string Bad(std::string_view yaml) {
  auto config = ParseModelConfig(yaml);
  EXPECT_FALSE(config.ok()) << yaml;
  if (config.ok()) return "";
  EXPECT_TRUE(absl::IsInvalidArgument(config.status()));
  return std::string(StdView(config.status().message()));
}

TEST(ModelConfigTest, EmptyIsDefault) {
  for (const char* text : {"", "\n", "# nothing\n", "---\n", "{}", "~"}) {
    const ModelConfig c = Good(text);
    EXPECT_EQ(c.max_batch, 0);
    EXPECT_EQ(c.max_queue, 8192);
    EXPECT_EQ(c.priority, 2u);
    EXPECT_EQ(c.default_deadline, absl::InfiniteDuration());
    EXPECT_TRUE(c.batching);
    EXPECT_EQ(CompileOptionsJson(c), R"({"precision":"float32"})");
  }
}

TEST(ModelConfigTest, ReadsEveryKey) {
  const ModelConfig c = Good(R"(
max_batch: 64
batch_buckets: [1, 8, 64]
batch_delay: 2ms
max_queue: 100
priority: 1
default_deadline: 1.5s
watchdog: 5s
cards: [cpu, "spyre-sim:1"]
deterministic: true
batching: false
labels:
  output: [no, yes, "no"]
targets: [cpu]
batch_axis: {x: 1, output: 0}
buckets: {sequence: [16, 32]}
pad: {x: -1.5, mask: 0}
output_names: [score]
precision: float32
rtol: 1e-4
atol: 0
)");
  EXPECT_EQ(c.max_batch, 64);
  EXPECT_THAT(c.batch_buckets, ElementsAre(1, 8, 64));
  EXPECT_EQ(c.batch_delay, absl::Milliseconds(2));
  EXPECT_EQ(c.max_queue, 100);
  EXPECT_EQ(c.priority, 1u);
  EXPECT_EQ(c.default_deadline, absl::Milliseconds(1500));
  EXPECT_EQ(c.watchdog, absl::Seconds(5));
  EXPECT_THAT(c.cards, ElementsAre("cpu", "spyre-sim:1"));
  EXPECT_TRUE(c.deterministic);
  EXPECT_FALSE(c.batching);
  EXPECT_THAT(c.labels, ElementsAre(Pair("output", ElementsAre("no", "yes", "no"))));
  EXPECT_THAT(c.targets, ElementsAre("cpu"));
  EXPECT_THAT(c.batch_axis, ElementsAre(Pair("output", 0), Pair("x", 1)));
  EXPECT_THAT(c.buckets, ElementsAre(Pair("sequence", ElementsAre(16, 32))));
  EXPECT_THAT(c.pad, ElementsAre(Pair("mask", 0), Pair("x", -1.5)));
  EXPECT_THAT(c.output_names, ElementsAre("score"));
  EXPECT_EQ(c.rtol, 1e-4);
  EXPECT_EQ(c.atol, 0);
  // Serving-only keys are not in it, and numbers are as Python prints them.
  EXPECT_EQ(CompileOptionsJson(c),
            R"({"atol":0.0,"batch_axis":{"output":0,"x":1},"batch_buckets":[1,8,64],)"
            R"("buckets":{"sequence":[16,32]},"deterministic":true,"max_batch":64,)"
            R"("output_names":["score"],"pad":{"mask":0.0,"x":-1.5},"precision":"float32",)"
            R"("rtol":0.0001})");
}

TEST(ModelConfigTest, OrderAndSpellingDoNotChangeTheOptions) {
  EXPECT_EQ(CompileOptionsJson(Good("rtol: 0.0001\npad: {a: 1, b: 2}\n")),
            CompileOptionsJson(Good("pad:\n  b: 2.0\n  a: 1\nrtol: 1e-4\npriority: 3\n")));
}

struct BadCase {
  const char* yaml;
  const char* expected;  // part of the message
};

TEST(ModelConfigTest, EveryKeyRefusesWhatIsWrong) {
  const BadCase kCases[] = {
      {"max_batch: -1", "line 1: max_batch is '-1', expected a whole number from 0 to 1048576"},
      {"max_batch: 1.5", "max_batch is '1.5'"},
      {"max_batch: 99999999999999999999", "max_batch is '99999999999999999999'"},
      {"max_batch: \"8\"", "max_batch is \"8\""},
      {"max_batch: 010", "max_batch is '010'"},
      {"max_batch: [1]", "max_batch is a list of 1"},
      {"max_batch:", "max_batch is empty"},
      {"batch_buckets: 8", "batch_buckets is '8', expected a list"},
      {"batch_buckets: [8, 4]", "batch_buckets[1] is '4', expected more than the 8 before it"},
      {"batch_buckets: [0]", "batch_buckets[0] is '0'"},
      {"batch_buckets: []", "batch_buckets is a list of 0"},
      {"max_batch: 4\nbatch_buckets: [8]", "line 2: batch_buckets goes up to 8, expected at most"},
      {"batch_delay: 5", "batch_delay is '5', expected a time with its unit"},
      {"batch_delay: -1ms", "batch_delay is '-1ms'"},
      {"batch_delay: 1h", "batch_delay is '1h'"},
      {"max_queue: 0", "max_queue is '0'"},
      {"priority: 4", "priority is '4', expected a whole number from 1 to 3"},
      {"priority: high", "priority is 'high'"},
      {"default_deadline: 0", "default_deadline is '0'"},
      {"default_deadline: inf", "default_deadline is 'inf'"},
      {"watchdog: 1us", "watchdog is '1us'"},
      {"cards: cpu", "cards is 'cpu', expected a list"},
      {"cards: [CPU]", "cards has 'CPU'"},
      {"cards: ['cpu:']", "cards has 'cpu:'"},
      {"cards: ['cpu:-1']", "cards has 'cpu:-1'"},
      {"cards: [cpu, cpu]", "cards[1] is 'cpu', expected names that differ"},
      {"deterministic: yes", "deterministic is 'yes', expected true or false"},
      {"batching: 1", "batching is '1', expected true or false"},
      {"labels: [a]", "labels is a list of 1, expected a map"},
      {"labels: {o: a}", "labels.o is 'a', expected a list"},
      {"targets: ['cpu:0']", "targets has 'cpu:0'"},
      {"batch_axis: {x: 12}", "batch_axis.x is '12', expected a whole number from 0 to 11"},
      {"batch_axis: 1", "batch_axis is '1', expected a map"},
      {"batch_axis: {x: 0, x: 1}", "batch_axis.x is given twice"},
      {"batch_axis: {\"\": 0}", "a name in batch_axis is \"\""},
      {"buckets: {s: [4, 4]}", "buckets.s[1] is '4'"},
      {"pad: {x: .nan}", "pad.x is '.nan', expected a finite number"},
      {"pad: {x: inf}", "pad.x is 'inf'"},
      {"pad: {x: 0x10}", "pad.x is '0x10'"},
      {"pad: {x: 1e999}", "pad.x is '1e999'"},
      {"output_names: [a, a]", "output_names[1]"},
      {"output_names: [\"a\\u0007\"]", "output_names[0] is \"a\\x07\""},
      {"precision: float16", "precision is 'float16', expected float32"},
      {"rtol: -1", "rtol is '-1', expected a finite number of at least 0"},
      {"atol: small", "atol is 'small'"},
      {"max_bach: 1", "line 1: unknown key 'max_bach', expected 'max_batch' perhaps"},
      {"zzzzzz: 1", "unknown key 'zzzzzz', expected one of atol, batch_axis"},
      {"priority: 1\npriority: 2", "line 2: priority is given twice, first in line 1"},
      {"- a\n", "the file is a list of 1, expected a map"},
      {"hello", "the file is 'hello', expected a map"},
      {"a: &x 1\nb: *x", "line 1: an anchor"},
      {"priority: !!int 1", "the tag 'tag:yaml.org,2002:int'"},
      {"priority: 1\n---\npriority: 2", "a second document"},
      {"rtol: 'x", "line 1: not YAML"},
      {"{a: b", "line 1: "},
      {"\tpriority: 1", "line 1"},
      {"? [a]\n: b", "a key that is not a text"},
  };
  for (const BadCase& bad : kCases) {
    EXPECT_THAT(Bad(bad.yaml), HasSubstr(bad.expected)) << bad.yaml;
  }
}

TEST(ModelConfigTest, AllFaultsInOneMessageByLine) {
  const std::string message = Bad("priority: 9\nmax_qeue: 1\nrtol: x\nbatching: maybe\n");
  EXPECT_THAT(message, AllOf(HasSubstr("model.yaml has 4 faults: line 1: priority"),
                             HasSubstr("line 2: unknown key 'max_qeue', expected 'max_queue'"),
                             HasSubstr("line 3: rtol"), HasSubstr("line 4: batching")));
}

TEST(ModelConfigTest, BombsAreBounded) {
  std::string deep;
  for (int i = 0; i < 20; ++i) deep = absl::StrCat("[", deep, "]");
  EXPECT_THAT(Bad(absl::StrCat("targets: ", deep)), HasSubstr("nested deeper than 16"));
  Bad(std::string(100000, '['));  // the parser itself is bounded as well
  std::string wide = "targets: [";
  for (int i = 0; i < 200000; ++i) wide += "a,";
  EXPECT_THAT(Bad(wide + "]"), HasSubstr("more than 100000 values"));
  EXPECT_THAT(Bad(std::string((1 << 20) + 1, ' ')), HasSubstr("expected at most 1048576"));
  std::string laughs = "a: &a [x,x]\n";
  EXPECT_THAT(Bad(laughs), HasSubstr("anchor"));
  std::string many;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&many, "key", i, ": 1\n");
  EXPECT_THAT(Bad(many), HasSubstr("and 950 more"));
  EXPECT_LT(Bad(many).size(), 50'000u);
}

TEST(ModelConfigTest, MessagesCarryNoRawBytes) {
  std::string hostile = "\"\\x1b[31m\\n\": 1\n";
  for (unsigned char c : Bad(hostile)) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

TEST(ModelConfigTest, RandomBytesNeverCrash) {
  std::mt19937 random(7);
  const std::string alphabet = "abcx:0129 \n-[]{},\"'&*!|>?%@`#~.\t\\";
  const std::vector<std::string> words = {"max_batch", "pad",   "labels", ": ",  "\n",  "  ",
                                          "[1, 2]",    "{x: 1}", "- ",     "true", "5ms", "\xff"};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const size_t size = random() % 60;
    for (size_t i = 0; i < size; ++i) {
      switch (random() % 3) {
        case 0: text += alphabet[random() % alphabet.size()]; break;
        case 1: text += words[random() % words.size()]; break;
        default: text += static_cast<char>(random()); break;
      }
    }
    const auto config = ParseModelConfig(text);
    if (!config.ok()) {
      EXPECT_TRUE(absl::IsInvalidArgument(config.status()));
    }
  }
}

TEST(ModelConfigTest, CutAtEveryByteNeverCrashes) {
  const std::string text =
      "max_batch: 64\nlabels:\n  o: [a, \"b\\n\"]\npad: {x: 1e-3}\nbatch_axis:\n  ? x\n  : 1\n";
  for (size_t i = 0; i <= text.size(); ++i) ParseModelConfig(text.substr(0, i)).status().ok();
}

TEST(ModelConfigTest, TheTableHasEveryKey) {
  std::ifstream file(BELFRY_MODEL_YAML_MD);
  const std::string table((std::istreambuf_iterator<char>(file)), {});
  // The message for an unknown key lists them all.
  const std::string message = Bad("zzzzzz: 1");
  const std::string list = message.substr(message.find("one of ") + 7);
  const std::vector<std::string> keys = absl::StrSplit(list, ", ");
  EXPECT_EQ(keys.size(), 19u);
  for (const std::string& key : keys) EXPECT_THAT(table, HasSubstr(absl::StrCat("`", key, "`")));
}

TEST(NearestTest, OnlyWhatIsNear) {
  EXPECT_EQ(Nearest("bucket", {"buckets", "pad"}), "buckets");
  EXPECT_EQ(Nearest("pads", {"buckets", "pad"}), "pad");
  EXPECT_EQ(Nearest("frobnicate", {"buckets", "pad"}), "");
  EXPECT_EQ(Nearest(std::string(100'000, 'x'), {"pad"}), "");
}

}  // namespace
}  // namespace belfry::serving
