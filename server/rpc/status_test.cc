#include "server/rpc/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace belfry::rpc {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

size_t Encoded(const std::string& text) {
  size_t n = 0;
  for (unsigned char c : text) n += c < 0x20 || c > 0x7E || c == '%' ? 3 : 1;
  return n;
}

TEST(StatusTest, CodesMapOneToOne) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status = ToGrpc(absl::Status(static_cast<absl::StatusCode>(code), "why"));
    EXPECT_EQ(static_cast<int>(status.error_code()), code);
    EXPECT_EQ(status.error_message(), "why");
  }
}

TEST(StatusTest, KeepsGoodText) {
  EXPECT_EQ(BoundMessage("Größe [2,30]\n\tfalsch – 日本 \xF0\x9F\x98\x80"),
            "Größe [2,30]\n\tfalsch – 日本 \xF0\x9F\x98\x80");
}

TEST(StatusTest, ReplacesWhatIsNotText) {
  EXPECT_EQ(BoundMessage(std::string("a\0b\x1b\x7f", 5)), "a?b??");
  EXPECT_EQ(BoundMessage("\xff\xc3("), "??(");
  EXPECT_EQ(BoundMessage("\xc0\xaf"), "??");          // overlong
  EXPECT_EQ(BoundMessage("\xed\xa0\x80"), "???");     // surrogate
  EXPECT_EQ(BoundMessage("\xf4\x90\x80\x80"), "????");  // past U+10FFFF
  EXPECT_EQ(BoundMessage("tail\xe2\x82"), "tail??");  // cut character
}

TEST(StatusTest, CutsTheMiddleAndSaysSo) {
  const std::string text = "begin " + std::string(100'000, 'x') + " end";
  const std::string bound = BoundMessage(text);
  EXPECT_LE(Encoded(bound), kMaxEncodedMessage);
  EXPECT_THAT(bound, StartsWith("begin xxx"));
  EXPECT_THAT(bound, EndsWith("xxx end"));
  EXPECT_THAT(bound, HasSubstr("bytes cut"));
}

TEST(StatusTest, CountsTheEncodedSizeAndKeepsCharactersWhole) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "€";
  const std::string bound = BoundMessage(text);
  EXPECT_LE(Encoded(bound), kMaxEncodedMessage);
  EXPECT_EQ(BoundMessage(bound), bound) << "cut inside a character";
  EXPECT_EQ(bound.find('?'), std::string::npos);
  // What just fits is left alone.
  EXPECT_EQ(BoundMessage(std::string(kMaxEncodedMessage, 'x')).size(), kMaxEncodedMessage);
}

}  // namespace
}  // namespace belfry::rpc
