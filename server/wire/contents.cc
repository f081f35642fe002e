#include "server/wire/contents.h"

#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <limits>

#include "server/wire/byte_order.h"

namespace belfry::wire {

using google::protobuf::internal::WireFormatLite;

namespace {

// Bytes of one element of a field once unpacked.
size_t FieldWidth(int number) {
  switch (number) {
    case kBoolContents:
      return 1;
    case kIntContents:
    case kUintContents:
    case kFp32Contents:
      return 4;
    default:
      return 8;
  }
}

bool IsVarintField(int number) { return number >= kBoolContents && number <= kUint64Contents; }
bool IsFixedField(int number) { return number == kFp32Contents || number == kFp64Contents; }

void StoreVarint(int number, uint64_t value, uint8_t* out) {
  switch (number) {
    case kBoolContents:
      *out = value != 0;
      break;
    case kIntContents:
    case kUintContents:
      StoreLittle<uint32_t>(out, static_cast<uint32_t>(value));
      break;
    default:
      StoreLittle<uint64_t>(out, value);
  }
}

// One varint of at most ten bytes; nullptr if it is longer or cut.
const uint8_t* ParseVarint(const uint8_t* p, const uint8_t* end, uint64_t* value) {
  uint64_t result = 0;
  for (int shift = 0; shift < 70 && p < end; shift += 7) {
    const uint8_t byte = *p++;
    result |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      return p;
    }
  }
  return nullptr;
}

bool Spend(WireReader& reader, size_t bytes, size_t* budget) {
  if (bytes > *budget) {
    return reader.Refuse(
        "typed contents take more memory than is allowed, expected raw_input_contents for tensors "
        "of this size");
  }
  *budget -= bytes;
  return true;
}

void CopyView(Contents::Field* field) {
  for (const Segment& s : field->view.segments) {
    field->bytes.insert(field->bytes.end(), s.data, s.data + s.size);
  }
  field->view.segments.clear();
  field->view.size = 0;
}

template <typename Narrow, typename Wide>
int64_t NarrowTo(std::vector<uint8_t>* bytes, int64_t* bad_value) {
  const size_t count = bytes->size() / sizeof(Wide);
  for (size_t i = 0; i < count; ++i) {
    const Wide value = LoadLittle<Wide>(bytes->data() + i * sizeof(Wide));
    if (value < std::numeric_limits<Narrow>::min() || value > std::numeric_limits<Narrow>::max()) {
      *bad_value = static_cast<int64_t>(value);
      return static_cast<int64_t>(i);
    }
    // Never ahead of the next load: the target is the narrower.
    StoreLittle<Narrow>(bytes->data() + i * sizeof(Narrow), static_cast<Narrow>(value));
  }
  bytes->resize(count * sizeof(Narrow));
  return -1;
}

}  // namespace

std::string_view ContentsFieldName(int field) {
  switch (field) {
    case kBoolContents:
      return "bool_contents";
    case kIntContents:
      return "int_contents";
    case kInt64Contents:
      return "int64_contents";
    case kUintContents:
      return "uint_contents";
    case kUint64Contents:
      return "uint64_contents";
    case kFp32Contents:
      return "fp32_contents";
    case kFp64Contents:
      return "fp64_contents";
    case kBytesContents:
      return "bytes_contents";
    default:
      return "raw_input_contents";
  }
}

int ContentsFieldFor(DataType dtype) {
  switch (dtype) {
    case DataType::kBool:
      return kBoolContents;
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
      return kIntContents;
    case DataType::kInt64:
      return kInt64Contents;
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
      return kUintContents;
    case DataType::kUint64:
      return kUint64Contents;
    case DataType::kFp32:
      return kFp32Contents;
    case DataType::kFp64:
      return kFp64Contents;
    case DataType::kBytes:
      return kBytesContents;
    case DataType::kFp16:
    case DataType::kBf16:
    case DataType::kInvalid:
      return 0;
  }
  return 0;
}

bool Contents::empty() const {
  return std::all_of(fields_.begin(), fields_.end(), [](const Field& f) { return f.count == 0; });
}

Contents::Field& Contents::Of(int number) {
  for (Field& f : fields_) {
    if (f.number == number) return f;
  }
  Field& f = fields_.emplace_back();
  f.number = number;
  return f;
}

bool Contents::Parse(WireReader& reader, size_t* budget) {
  while (reader.More()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return false;
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    const auto type = WireFormatLite::GetTagWireType(tag);
    const bool delimited = type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    bool ok;
    if (IsVarintField(number) && delimited) {
      ok = ParsePackedVarints(reader, number, budget);
    } else if (IsVarintField(number) && type == WireFormatLite::WIRETYPE_VARINT) {
      ok = ParseOneVarint(reader, number, budget);
    } else if (IsFixedField(number) && delimited) {
      ok = ParsePackedFixed(reader, number, budget);
    } else if ((number == kFp32Contents && type == WireFormatLite::WIRETYPE_FIXED32) ||
               (number == kFp64Contents && type == WireFormatLite::WIRETYPE_FIXED64)) {
      ok = ParseOneFixed(reader, number, budget);
    } else if (number == kBytesContents && delimited) {
      ok = ParseBytes(reader, budget);
    } else {
      ok = reader.SkipField(tag);
    }
    if (!ok) return false;
  }
  return true;
}

bool Contents::ParsePackedVarints(WireReader& reader, int number, size_t* budget) {
  int length;
  if (!reader.ReadLength(&length)) return false;
  Field& field = Of(number);
  const size_t width = FieldWidth(number);
  const auto limit = reader.Push(length);
  while (reader.More()) {
    // What lies in one piece is unpacked in a tight loop; its last varint may
    // go on in the next piece and is then left to the reader.
    const std::span<const uint8_t> piece = reader.Peek();
    const size_t whole = static_cast<size_t>(
        std::count_if(piece.begin(), piece.end(), [](uint8_t b) { return b < 0x80; }));
    if (whole == 0) {
      if (!ParseOneVarint(reader, number, budget)) return false;
      continue;
    }
    if (!Spend(reader, whole * width, budget)) return false;
    const size_t at = field.bytes.size();
    field.bytes.resize(at + whole * width);
    uint8_t* out = field.bytes.data() + at;
    const uint8_t* p = piece.data();
    const uint8_t* const end = p + piece.size();
    for (size_t i = 0; i < whole; ++i, out += width) {
      uint64_t value;
      p = ParseVarint(p, end, &value);
      if (p == nullptr) return reader.Malformed("bad or truncated number");
      StoreVarint(number, value, out);
    }
    field.count += whole;
    reader.Advance(static_cast<int>(p - piece.data()));
  }
  reader.Pop(limit);
  return true;
}

bool Contents::ParseOneVarint(WireReader& reader, int number, size_t* budget) {
  uint64_t value;
  const size_t width = FieldWidth(number);
  if (!reader.ReadVarint(&value) || !Spend(reader, width, budget)) return false;
  Field& field = Of(number);
  field.bytes.resize(field.bytes.size() + width);
  StoreVarint(number, value, field.bytes.data() + field.bytes.size() - width);
  ++field.count;
  return true;
}

bool Contents::ParsePackedFixed(WireReader& reader, int number, size_t* budget) {
  int length;
  if (!reader.ReadLength(&length)) return false;
  const size_t size = static_cast<size_t>(length);
  const size_t width = FieldWidth(number);
  if (size % width != 0) return reader.Malformed("packed field ends inside an element");
  Field& field = Of(number);
  Payload piece;
  if (!reader.ReadPayload(length, &piece)) return false;
  if (field.count == 0) {
    field.view = std::move(piece);
  } else {
    if (!Spend(reader, field.view.size + size, budget)) return false;
    CopyView(&field);
    for (const Segment& s : piece.segments) {
      field.bytes.insert(field.bytes.end(), s.data, s.data + s.size);
    }
  }
  field.count += size / width;
  return true;
}

bool Contents::ParseOneFixed(WireReader& reader, int number, size_t* budget) {
  Field& field = Of(number);
  const size_t width = FieldWidth(number);
  if (!Spend(reader, field.view.size + width, budget)) return false;
  CopyView(&field);
  uint8_t raw[8];
  if (number == kFp32Contents) {
    uint32_t value;
    if (!reader.ReadFixed32(&value)) return false;
    StoreLittle(raw, value);
  } else {
    uint64_t value;
    if (!reader.ReadFixed64(&value)) return false;
    StoreLittle(raw, value);
  }
  field.bytes.insert(field.bytes.end(), raw, raw + width);
  ++field.count;
  return true;
}

bool Contents::ParseBytes(WireReader& reader, size_t* budget) {
  int length;
  if (!reader.ReadLength(&length)) return false;
  const size_t size = static_cast<size_t>(length);
  if (!Spend(reader, sizeof(uint32_t) + size, budget)) return false;
  Field& field = Of(kBytesContents);
  const size_t at = field.bytes.size();
  Payload piece;
  if (!reader.ReadPayload(length, &piece)) return false;
  field.bytes.resize(at + sizeof(uint32_t));
  StoreLittle<uint32_t>(field.bytes.data() + at, static_cast<uint32_t>(size));
  for (const Segment& s : piece.segments) {
    field.bytes.insert(field.bytes.end(), s.data, s.data + s.size);
  }
  ++field.count;
  return true;
}

int64_t NarrowContents(DataType dtype, std::vector<uint8_t>* bytes, int64_t* bad_value) {
  switch (dtype) {
    case DataType::kInt8:
      return NarrowTo<int8_t, int32_t>(bytes, bad_value);
    case DataType::kInt16:
      return NarrowTo<int16_t, int32_t>(bytes, bad_value);
    case DataType::kUint8:
      return NarrowTo<uint8_t, uint32_t>(bytes, bad_value);
    case DataType::kUint16:
      return NarrowTo<uint16_t, uint32_t>(bytes, bad_value);
    default:
      return -1;
  }
}

}  // namespace belfry::wire
