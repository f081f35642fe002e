// Tensor elements that came as typed 'contents' (InferTensorContents).
#ifndef BELFRY_SERVER_WIRE_CONTENTS_H_
#define BELFRY_SERVER_WIRE_CONTENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "device/channel/dtype.h"
#include "server/wire/request.h"
#include "server/wire/wire_reader.h"

namespace belfry::wire {

// Field numbers of InferTensorContents.
enum ContentsField : int {
  kBoolContents = 1,
  kIntContents = 2,
  kInt64Contents = 3,
  kUintContents = 4,
  kUint64Contents = 5,
  kFp32Contents = 6,
  kFp64Contents = 7,
  kBytesContents = 8,
};

std::string_view ContentsFieldName(int field);
// The field that belongs to the datatype; 0 for FP16 and BF16 (raw only).
int ContentsFieldFor(DataType dtype);

// Gathers one message, or several that are merged (protobuf's rule when a
// field that is not repeated occurs twice). Not thread-safe.
class Contents {
 public:
  // The elements of one field, little-endian, as wide as the field's type;
  // bytes_contents: length (uint32) and bytes each.
  struct Field {
    int number = 0;
    size_t count = 0;
    // Floating-point values are the same on the wire as in raw contents: a
    // packed field that came in one go is only looked at.
    Payload view;
    std::vector<uint8_t> bytes;
  };

  // Parses the message's fields up to the reader's limit. 'budget' is what may
  // still be unpacked for this request, in bytes.
  bool Parse(WireReader& reader, size_t* budget);

  bool empty() const;  // no elements at all
  const absl::InlinedVector<Field, 1>& fields() const { return fields_; }
  absl::InlinedVector<Field, 1>& fields() { return fields_; }

 private:
  Field& Of(int number);
  bool ParsePackedVarints(WireReader& reader, int number, size_t* budget);
  bool ParseOneVarint(WireReader& reader, int number, size_t* budget);
  bool ParsePackedFixed(WireReader& reader, int number, size_t* budget);
  bool ParseOneFixed(WireReader& reader, int number, size_t* budget);
  bool ParseBytes(WireReader& reader, size_t* budget);

  absl::InlinedVector<Field, 1> fields_;
};

// Brings int_contents or uint_contents to the width of an 8- or 16-bit
// datatype, in place. Returns the index of the first element that is out of
// range and its value, or -1.
int64_t NarrowContents(DataType dtype, std::vector<uint8_t>* bytes, int64_t* bad_value);

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_CONTENTS_H_
