#include "device/channel/control.h"

#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "device/channel/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::channel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(ControlMessagesTest, LoadGoesToAndFro) {
  Request r;
  r.id = UINT64_MAX;
  r.op = Op::kLoad;
  r.executable = UINT32_MAX;
  r.dir = "/cache/abc";
  r.label = "card-fraud/1";
  const auto back = ParseRequest(EncodeRequest(r));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->id, r.id);
  EXPECT_EQ(back->op, Op::kLoad);
  EXPECT_EQ(back->executable, r.executable);
  EXPECT_EQ(back->dir, r.dir);
  EXPECT_EQ(back->builtin, "");
  EXPECT_EQ(back->label, r.label);
}

TEST(ControlMessagesTest, WarmGoesToAndFro) {
  Request r;
  r.op = Op::kWarm;
  r.shapes = {{{"batch", 1}, {"seq", 16}}, {}, {{"batch", INT64_MAX}}};
  const auto back = ParseRequest(EncodeRequest(r));
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(back->shapes.size(), 3u);
  EXPECT_THAT(back->shapes[0], ElementsAre(Pair("batch", 1), Pair("seq", 16)));
  EXPECT_TRUE(back->shapes[1].empty());
  EXPECT_THAT(back->shapes[2], ElementsAre(Pair("batch", INT64_MAX)));
}

TEST(ControlMessagesTest, OpsWithoutFieldsGoToAndFro) {
  for (Op op : {Op::kUnload, Op::kMemory, Op::kShutdown}) {
    Request r;
    r.op = op;
    const auto back = ParseRequest(EncodeRequest(r));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->op, op);
  }
}

TEST(ControlMessagesTest, RepliesGoToAndFro) {
  Reply r;
  r.id = 3;
  r.resident_bytes = 1;
  r.memory_used = 2;
  r.memory_total = UINT64_MAX;
  auto back = ParseReply(EncodeReply(r));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(back->status.ok());
  EXPECT_EQ(back->resident_bytes, 1u);
  EXPECT_EQ(back->memory_used, 2u);
  EXPECT_EQ(back->memory_total, UINT64_MAX);

  for (int code = 1; code <= 16; ++code) {
    r.status = absl::Status(static_cast<absl::StatusCode>(code), "why \"it\" failed\n");
    back = ParseReply(EncodeReply(r));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->status, r.status);
  }
}

TEST(ControlMessagesTest, AnErrorTextOfAnySizeAndContentFits) {
  Reply r;
  std::string text(1 << 20, '\x01');
  text[5] = '\xff';
  r.status = absl::InternalError(text);
  const std::string message = EncodeReply(r);
  EXPECT_LE(message.size(), kMaxControlBytes);
  const auto back = ParseReply(message);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->status.code(), absl::StatusCode::kInternal);
}

TEST(ControlMessagesTest, HelloGoesToAndFro) {
  const Hello hello{"cpu", 42, {{"arch", "x86_64"}, {"torch", "2.13.0+cpu"}}};
  const auto back = ParseHello(EncodeHello(hello));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->driver, "cpu");
  EXPECT_EQ(back->pid, 42);
  EXPECT_EQ(back->describe, hello.describe);
}

TEST(ControlMessagesTest, FaultsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "not JSON"},
      {"[]", "expected an object"},
      {"{\"id\":1", "not JSON"},
      {"{}", "id is missing"},
      {R"({"id":-1,"op":"memory"})", "id is -1"},
      {R"({"id":1.5,"op":"memory"})", "id is 1.5"},
      {R"({"id":1})", "op is missing"},
      {R"({"id":1,"op":"fly"})", "op is \"fly\""},
      {R"({"id":1,"op":7})", "op is 7"},
      {R"({"id":1,"op":"load","dir":"/a"})", "executable is missing"},
      {R"({"id":1,"op":"load","executable":4294967296,"dir":"/a"})", "executable is 4294967296"},
      {R"({"id":1,"op":"load","executable":1})", "exactly one of"},
      {R"({"id":1,"op":"load","executable":1,"dir":"/a","builtin":"echo"})", "exactly one of"},
      {R"({"id":1,"op":"load","executable":1,"dir":"a"})", "an absolute path"},
      {R"({"id":1,"op":"load","executable":1,"dir":"/a\u0000b"})", "dir is"},
      {R"({"id":1,"op":"load","executable":1,"builtin":""})", "built-in"},
      {R"({"id":1,"op":"warm","executable":1})", "shapes is missing"},
      {R"({"id":1,"op":"warm","executable":1,"shapes":{}})", "an array"},
      {R"({"id":1,"op":"warm","executable":1,"shapes":[1]})", "shapes[0] is 1"},
      {R"({"id":1,"op":"warm","executable":1,"shapes":[{"n":-1}]})", "shapes[0].n is -1"},
      {R"({"id":1,"op":"warm","executable":1,"shapes":[{"n":9223372036854775808}]})",
       "shapes[0].n"},
  };
  for (const auto& [message, error] : cases) {
    const auto r = ParseRequest(message);
    ASSERT_EQ(r.status().code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(r.status().message()), HasSubstr(error)) << message;
  }
  EXPECT_FALSE(ParseReply(R"({"id":1})").ok());
  EXPECT_FALSE(ParseReply(R"({"id":1,"ok":false})").ok());
  EXPECT_FALSE(ParseReply(R"({"id":1,"ok":true,"memory_used":-3})").ok());
  EXPECT_FALSE(ParseHello(R"({"hello":{"driver":"x","pid":0,"describe":{}}})").ok());
  EXPECT_FALSE(ParseHello(R"({"hello":{"driver":"x","pid":1,"describe":{"a":1}}})").ok());
}

TEST(ControlMessagesTest, DeepNestingIsRefused) {
  const std::string deep(30000, '[');
  EXPECT_THAT(std::string(ParseRequest("{\"a\":" + deep).status().message()),
              HasSubstr("deeper"));
}

// Any change of a good message gives a value or an error, never a crash.
TEST(ControlMessagesTest, MutatedMessagesDoNoHarm) {
  const std::string good =
      R"({"id":1,"op":"warm","executable":3,"shapes":[{"batch":1},{"batch":2}]})";
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int n = 1 + static_cast<int>(random() % 4); n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 5); break;
        default: text.insert(at, 1, "{}[]\",:\\0-"[random() % 10]);
      }
      if (text.empty()) text.push_back('x');
    }
    (void)ParseRequest(text);
    (void)ParseReply(text);
    (void)ParseHello(text);
  }
}

TEST(ControlSocketTest, KeepsMessagesApart) {
  auto pair = ControlSocket::CreatePair();
  ASSERT_TRUE(pair.ok());
  auto& [a, b] = *pair;
  const std::string big(kMaxControlBytes, 'x');
  ASSERT_TRUE(a.Send("one", absl::Seconds(10)).ok());
  ASSERT_TRUE(a.Send(big, absl::Seconds(10)).ok());
  EXPECT_EQ(*b.Receive(absl::Seconds(10)), "one");
  EXPECT_EQ(*b.Receive(absl::Seconds(10)), big);
}

TEST(ControlSocketTest, RefusesToSendWhatIsTooLong) {
  auto pair = ControlSocket::CreatePair();
  ASSERT_TRUE(pair.ok());
  EXPECT_EQ(pair->first.Send(std::string(kMaxControlBytes + 1, 'x'), absl::Seconds(1)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pair->first.Send("", absl::Seconds(1)).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ControlSocketTest, ThrowsAwayWhatIsTooLongAndGoesOn) {
  auto pair = ControlSocket::CreatePair();
  ASSERT_TRUE(pair.ok());
  auto& [a, b] = *pair;
  const std::string big(kMaxControlBytes + 1, 'x');
  ASSERT_EQ(send(a.fd(), big.data(), big.size(), 0), static_cast<ssize_t>(big.size()));
  ASSERT_TRUE(a.Send("next", absl::Seconds(10)).ok());
  EXPECT_EQ(b.Receive(absl::Seconds(10)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*b.Receive(absl::Seconds(10)), "next");
}

TEST(ControlSocketTest, ReceiveTimesOut) {
  auto pair = ControlSocket::CreatePair();
  ASSERT_TRUE(pair.ok());
  EXPECT_EQ(pair->first.Receive(absl::Milliseconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(ControlSocketTest, SendTimesOutWhenNobodyReads) {
  auto pair = ControlSocket::CreatePair();
  ASSERT_TRUE(pair.ok());
  const std::string big(kMaxControlBytes, 'x');
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    status = pair->first.Send(big, absl::Milliseconds(1));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(ControlSocketTest, SaysWhenTheOtherSideIsGone) {
  auto pair = ControlSocket::CreatePair();
  ASSERT_TRUE(pair.ok());
  auto& [a, b] = *pair;
  ASSERT_TRUE(b.Send("last words", absl::Seconds(10)).ok());
  b = ControlSocket();
  EXPECT_EQ(*a.Receive(absl::Seconds(10)), "last words");
  EXPECT_EQ(a.Receive(absl::InfiniteDuration()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(a.Send("x", absl::Seconds(10)).code(), absl::StatusCode::kUnavailable);
}

TEST(ControlSocketTest, ShutdownEndsAReceive) {
  auto pair = ControlSocket::CreatePair();
  ASSERT_TRUE(pair.ok());
  std::thread reader([&] {
    EXPECT_EQ(pair->first.Receive(absl::InfiniteDuration()).status().code(),
              absl::StatusCode::kUnavailable);
  });
  pair->first.Shutdown();
  reader.join();
}

}  // namespace
}  // namespace belfry::channel
