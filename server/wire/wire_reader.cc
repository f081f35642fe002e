#include "server/wire/wire_reader.h"

#include <google/protobuf/stubs/common.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "server/wire/text.h"


namespace belfry::wire {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

namespace {

constexpr int kMaxTagBytes = 5;  // of tags and lengths, as in generated parsers

bool IsUtf8(std::string_view text) {
  // Names are ASCII nearly always; eight bytes a step.
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (i < text.size() && static_cast<uint8_t>(text[i]) < 0x80) ++i;
  if (i == text.size()) return true;
  return google::protobuf::internal::IsStructurallyValidUTF8(text.data() + i,
                                                             static_cast<int>(text.size() - i));
}

}  // namespace

bool SegmentStream::Next(const void** data, int* size) {
  while (index_ < segments_.size() && offset_ == segments_[index_].size) {
    ++index_;
    offset_ = 0;
  }
  if (index_ == segments_.size()) return false;
  const Segment& segment = segments_[index_];
  const size_t left = std::min<size_t>(segment.size - offset_, INT_MAX);
  *data = segment.data + offset_;
  *size = static_cast<int>(left);
  offset_ += left;
  consumed_ += static_cast<int64_t>(left);
  return true;
}

void SegmentStream::BackUp(int count) {
  // By contract at most what the last Next gave, so within this segment.
  offset_ -= static_cast<size_t>(count);
  consumed_ -= count;
}

bool SegmentStream::Skip(int count) {
  const void* data;
  int size;
  while (count > 0 && Next(&data, &size)) {
    if (size > count) {
      BackUp(size - count);
      return true;
    }
    count -= size;
  }
  return count == 0;
}

WireReader::WireReader(std::span<const Segment> segments, int total)
    : stream_(segments), in_(&stream_), depth_left_(CodedInputStream::GetDefaultRecursionLimit()) {
  in_.PushLimit(total);
}

bool WireReader::Malformed(const char* what) {
  if (fault_.empty()) {
    fault_ = Cat("not a valid ModelInferRequest: ", what, " near byte ",
                          in_.CurrentPosition());
  }
  return false;
}

bool WireReader::Refuse(std::string why) {
  if (fault_.empty()) fault_ = std::move(why);
  return false;
}

bool WireReader::ReadTag(uint32_t* tag) {
  const int before = in_.CurrentPosition();
  *tag = in_.ReadTag();
  if (in_.CurrentPosition() - before > kMaxTagBytes || *tag >> 3 == 0) {
    return Malformed("bad field tag");
  }
  return true;
}

bool WireReader::ReadVarint(uint64_t* value) {
  return in_.ReadVarint64(value) || Malformed("bad or truncated number");
}

bool WireReader::ReadFixed32(uint32_t* value) {
  return in_.ReadLittleEndian32(value) || Malformed("truncated number");
}

bool WireReader::ReadFixed64(uint64_t* value) {
  return in_.ReadLittleEndian64(value) || Malformed("truncated number");
}

bool WireReader::ReadLength(int* length) {
  const int before = in_.CurrentPosition();
  uint64_t value;
  if (!in_.ReadVarint64(&value) || in_.CurrentPosition() - before > kMaxTagBytes) {
    return Malformed("bad length");
  }
  if (value > static_cast<uint64_t>(in_.BytesUntilLimit())) {
    return Malformed("length reaches beyond the end");
  }
  *length = static_cast<int>(value);
  return true;
}

std::span<const uint8_t> WireReader::Peek() {
  const void* data;
  int size;
  if (!in_.GetDirectBufferPointer(&data, &size)) return {};
  return {static_cast<const uint8_t*>(data), static_cast<size_t>(size)};
}

bool WireReader::ReadPayload(int length, Payload* payload) {
  payload->size += static_cast<size_t>(length);
  while (length > 0) {
    const std::span<const uint8_t> piece = Peek();
    if (piece.empty()) return Malformed("truncated bytes");
    const int n = static_cast<int>(std::min<size_t>(piece.size(), static_cast<size_t>(length)));
    payload->segments.push_back({piece.data(), static_cast<size_t>(n)});
    in_.Skip(n);
    length -= n;
  }
  return true;
}

bool WireReader::ReadText(const char* what, size_t limit, std::string_view* text) {
  int length;
  if (!ReadLength(&length)) return false;
  const size_t size = static_cast<size_t>(length);
  if (size > limit) {
    return Refuse(Cat(what, " has ", size, " bytes, expected at most ", limit));
  }
  if (const auto piece = Peek(); piece.size() >= size) {
    *text = {reinterpret_cast<const char*>(piece.data()), size};
    in_.Skip(length);
  } else {
    auto& whole = joined_.emplace_back(new char[size]);
    if (!in_.ReadRaw(whole.get(), length)) return Malformed("truncated text");
    *text = {whole.get(), size};
  }
  if (!IsUtf8(*text)) {
    return Malformed(Cat(what, " is not valid UTF-8").c_str());
  }
  return true;
}

bool WireReader::Enter(CodedInputStream::Limit* limit) {
  int length;
  if (!ReadLength(&length)) return false;
  if (depth_left_ <= 0) return Malformed("messages nested too deeply");
  --depth_left_;
  *limit = in_.PushLimit(length);
  return true;
}

void WireReader::Leave(CodedInputStream::Limit limit) {
  in_.PopLimit(limit);
  ++depth_left_;
}

bool WireReader::SkipField(uint32_t tag) {
  switch (WireFormatLite::GetTagWireType(tag)) {
    case WireFormatLite::WIRETYPE_VARINT: {
      uint64_t ignored;
      return ReadVarint(&ignored);
    }
    case WireFormatLite::WIRETYPE_FIXED64:
      return in_.Skip(8) || Malformed("truncated number");
    case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
      int length;
      return ReadLength(&length) && (in_.Skip(length) || Malformed("truncated bytes"));
    }
    case WireFormatLite::WIRETYPE_START_GROUP:
      return SkipGroup(tag);
    case WireFormatLite::WIRETYPE_FIXED32:
      return in_.Skip(4) || Malformed("truncated number");
    default:
      return Malformed("bad field type");
  }
}

bool WireReader::SkipGroup(uint32_t start_tag) {
  // Recursion is bounded by depth_left_ (100 at most).
  if (--depth_left_ < 0) return Malformed("groups nested too deeply");
  while (More()) {
    uint32_t tag;
    if (!ReadTag(&tag)) return false;
    if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_END_GROUP) {
      ++depth_left_;
      return tag >> 3 == start_tag >> 3 || Malformed("group ends with another's end");
    }
    if (!SkipField(tag)) return false;
  }
  return Malformed("group without an end");
}

}  // namespace belfry::wire
