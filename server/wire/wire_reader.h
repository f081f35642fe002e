// Reads protobuf's wire format from the pieces that gRPC hands over.
//
// A thin skin over protobuf's CodedInputStream. The generated parsers are
// stricter than it in three places (tags and lengths of more than five bytes,
// field number 0, a length that reaches beyond its message); the skin is as
// strict, so that a message is valid here if and only if it is valid there.
#ifndef BELFRY_SERVER_WIRE_WIRE_READER_H_
#define BELFRY_SERVER_WIRE_WIRE_READER_H_

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/wire/request.h"

namespace belfry::wire {

// Shows segments to protobuf as they lie. Does not own them.
class SegmentStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit SegmentStream(std::span<const Segment> segments) : segments_(segments) {}

  bool Next(const void** data, int* size) override;
  void BackUp(int count) override;
  bool Skip(int count) override;
  int64_t ByteCount() const override { return consumed_; }

 private:
  std::span<const Segment> segments_;
  size_t index_ = 0;   // of the segment that is shown next
  size_t offset_ = 0;  // in it
  int64_t consumed_ = 0;
};

// One pass over one message. Every method returns false on malformed input and
// then notes why; the first note stands. Not thread-safe. The segments must
// outlive the reader and all views that it gives out.
class WireReader {
 public:
  using WireType = google::protobuf::internal::WireFormatLite::WireType;

  // 'total' is the sum of the segments' sizes, at most INT_MAX.
  WireReader(std::span<const Segment> segments, int total);
  WireReader(const WireReader&) = delete;
  WireReader& operator=(const WireReader&) = delete;

  // Whether the current message (or packed field) has more bytes.
  bool More() { return in_.BytesUntilLimit() > 0; }

  bool ReadTag(uint32_t* tag);
  bool ReadVarint(uint64_t* value);
  bool ReadFixed32(uint32_t* value);
  bool ReadFixed64(uint64_t* value);
  // The length of a delimited field; checked to lie within the message.
  bool ReadLength(int* length);
  // 'length' bytes where they lie.
  bool ReadPayload(int length, Payload* payload);
  // A delimited field of type string: length, bytes, UTF-8 checked. The view
  // is valid as long as the reader. Longer than 'limit': refused.
  bool ReadText(const char* what, size_t limit, std::string_view* text);
  // Skips a field that is unknown or of another type than expected.
  bool SkipField(uint32_t tag);

  // Brackets a sub-message.
  bool Enter(google::protobuf::io::CodedInputStream::Limit* limit);
  void Leave(google::protobuf::io::CodedInputStream::Limit limit);
  // Brackets a packed field whose length has been read.
  google::protobuf::io::CodedInputStream::Limit Push(int length) { return in_.PushLimit(length); }
  void Pop(google::protobuf::io::CodedInputStream::Limit limit) { in_.PopLimit(limit); }

  // The bytes up to the end of the segment or the limit, without taking them.
  std::span<const uint8_t> Peek();
  bool Advance(int bytes) { return in_.Skip(bytes); }

  // Notes a fault; always false.
  bool Malformed(const char* what);
  bool Refuse(std::string why);
  // Text of the first fault.
  const std::string& fault() const { return fault_; }

 private:
  bool SkipGroup(uint32_t start_tag);

  SegmentStream stream_;
  google::protobuf::io::CodedInputStream in_;
  int depth_left_;
  std::string fault_;
  // Strings that were cut by a segment's end, put together.
  std::vector<std::unique_ptr<char[]>> joined_;
};

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_WIRE_READER_H_
