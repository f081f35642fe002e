#include "server/rpc/status.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"

namespace belfry::rpc {
namespace {

// Bytes of the well-formed UTF-8 character at the head of 'text'; 0 if there
// is none. Overlong forms, surrogates and values past U+10FFFF are not well
// formed.
size_t Utf8Length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  const uint8_t second = at(1);
  if (lead == 0xE0 && second < 0xA0) return 0;
  if (lead == 0xED && second > 0x9F) return 0;
  if (lead == 0xF0 && second < 0x90) return 0;
  if (lead == 0xF4 && second > 0x8F) return 0;
  return length;
}

// gRPC sends anything but printable ASCII, and '%', as three bytes.
size_t EncodedSize(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte < 0x20 || byte > 0x7E || byte == '%' ? 3 : 1;
}

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Most bytes from the front (or back) whose encoding fits 'budget', whole
// characters only.
size_t FrontThatFits(std::string_view text, size_t budget) {
  size_t n = 0;
  while (n < text.size() && EncodedSize(text[n]) <= budget) budget -= EncodedSize(text[n++]);
  while (n > 0 && n < text.size() && IsContinuation(text[n])) --n;
  return n;
}

size_t BackThatFits(std::string_view text, size_t budget) {
  size_t n = 0;
  while (n < text.size() && EncodedSize(text[text.size() - 1 - n]) <= budget) {
    budget -= EncodedSize(text[text.size() - 1 - n++]);
  }
  while (n > 0 && IsContinuation(text[text.size() - n])) --n;
  return n;
}

}  // namespace

std::string CleanText(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const auto first = static_cast<uint8_t>(text[0]);
    const bool control = first < 0x20 || first == 0x7F;
    if (length == 0 || (control && first != '\n' && first != '\t')) {
      out += '?';
      text.remove_prefix(1);
      continue;
    }
    out.append(text.substr(0, length));
    text.remove_prefix(length);
  }
  return out;
}

std::string BoundMessage(std::string_view text) {
  std::string clean = CleanText(text);
  size_t encoded = 0;
  for (char c : clean) encoded += EncodedSize(c);
  if (encoded <= kMaxEncodedMessage) return clean;

  constexpr size_t kNote = 64;  // the note below, encoded
  constexpr size_t kHalf = (kMaxEncodedMessage - kNote) / 2;
  const size_t front = FrontThatFits(clean, kHalf);
  const size_t back = BackThatFits(clean, kHalf);
  return absl::StrCat(clean.substr(0, front), " [... ", clean.size() - front - back,
                      " bytes cut ...] ", clean.substr(clean.size() - back));
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(static_cast<int>(status.code())),
                      BoundMessage(StdView(status.message())));
}

}  // namespace belfry::rpc
