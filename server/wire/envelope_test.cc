// Holds our parser of the envelope against protobuf's generated one: the same
// bytes are valid for both, and mean the same.
#include "server/wire/envelope.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <string>
#include <vector>

#include "server/wire/random_messages.h"
#include "server/wire/test_messages.h"

namespace belfry::wire {
namespace {

using inference::InferParameter;
using inference::ModelInferRequest;

DecodeLimits Wide() {
  DecodeLimits limits;
  limits.max_inputs = limits.max_outputs = limits.max_parameters = 1 << 20;
  limits.max_name_bytes = 1 << 30;
  return limits;
}

std::string Show(const Parameter& p) {
  switch (p.kind) {
    case Parameter::Kind::kNone:
      return "none";
    case Parameter::Kind::kBool:
      return p.bool_value ? "true" : "false";
    case Parameter::Kind::kInt64:
      return "i" + std::to_string(p.int64_value);
    case Parameter::Kind::kString:
      return "s" + std::string(p.string_value);
    case Parameter::Kind::kDouble:
      return "d" + std::to_string(std::bit_cast<uint64_t>(p.double_value));
    case Parameter::Kind::kUint64:
      return "u" + std::to_string(p.uint64_value);
  }
  return "?";
}

std::string Show(const InferParameter& p) {
  switch (p.parameter_choice_case()) {
    case InferParameter::PARAMETER_CHOICE_NOT_SET:
      return "none";
    case InferParameter::kBoolParam:
      return p.bool_param() ? "true" : "false";
    case InferParameter::kInt64Param:
      return "i" + std::to_string(p.int64_param());
    case InferParameter::kStringParam:
      return "s" + p.string_param();
    case InferParameter::kDoubleParam:
      return "d" + std::to_string(std::bit_cast<uint64_t>(p.double_param()));
    case InferParameter::kUint64Param:
      return "u" + std::to_string(p.uint64_param());
  }
  return "?";
}

void ExpectSame(const ParameterList& ours, const ParameterMap& theirs) {
  ASSERT_EQ(ours.entries.size(), theirs.size());
  for (const Parameter& p : ours.entries) {
    const auto it = theirs.find(std::string(p.key));
    ASSERT_NE(it, theirs.end());
    EXPECT_EQ(Show(p), Show(it->second));
  }
}

// The elements of a field of the generated message, as raw contents.
std::string RawOfField(const inference::InferTensorContents& c, int number) {
  switch (number) {
    case kBoolContents:
      return RawOfList(c.bool_contents());
    case kIntContents:
      return RawOfList(c.int_contents());
    case kInt64Contents:
      return RawOfList(c.int64_contents());
    case kUintContents:
      return RawOfList(c.uint_contents());
    case kUint64Contents:
      return RawOfList(c.uint64_contents());
    case kFp32Contents:
      return RawOfList(c.fp32_contents());
    case kFp64Contents:
      return RawOfList(c.fp64_contents());
    default:
      return Elements({c.bytes_contents().begin(), c.bytes_contents().end()});
  }
}

void ExpectSame(const Contents* ours, const inference::InferTensorContents& theirs) {
  for (int number = kBoolContents; number <= kBytesContents; ++number) {
    std::string bytes;
    if (ours != nullptr) {
      for (const Contents::Field& f : ours->fields()) {
        if (f.number != number) continue;
        bytes = BytesOf(f.view) + std::string(f.bytes.begin(), f.bytes.end());
      }
    }
    EXPECT_EQ(bytes, RawOfField(theirs, number)) << ContentsFieldName(number);
  }
}

void ExpectSame(const Envelope& ours, const ModelInferRequest& theirs) {
  EXPECT_EQ(ours.model_name, theirs.model_name());
  EXPECT_EQ(ours.model_version, theirs.model_version());
  EXPECT_EQ(ours.id, theirs.id());
  ExpectSame(ours.parameters, theirs.parameters());
  ASSERT_EQ(ours.inputs.size(), static_cast<size_t>(theirs.inputs_size()));
  for (size_t i = 0; i < ours.inputs.size(); ++i) {
    const auto& a = ours.inputs[i];
    const auto& b = theirs.inputs(static_cast<int>(i));
    EXPECT_EQ(a.name, b.name());
    EXPECT_EQ(a.datatype, b.datatype());
    ASSERT_EQ(a.rank, static_cast<size_t>(b.shape_size()));
    for (size_t d = 0; d < a.shape.size(); ++d) {
      EXPECT_EQ(a.shape[d], b.shape(static_cast<int>(d)));
    }
    ExpectSame(a.parameters, b.parameters());
    EXPECT_EQ(a.contents != nullptr, b.has_contents());
    ExpectSame(a.contents.get(), b.contents());
  }
  ASSERT_EQ(ours.outputs.size(), static_cast<size_t>(theirs.outputs_size()));
  for (size_t i = 0; i < ours.outputs.size(); ++i) {
    EXPECT_EQ(ours.outputs[i].name, theirs.outputs(static_cast<int>(i)).name());
    ExpectSame(ours.outputs[i].parameters, theirs.outputs(static_cast<int>(i)).parameters());
  }
  ASSERT_EQ(ours.raw.size(), static_cast<size_t>(theirs.raw_input_contents_size()));
  for (size_t i = 0; i < ours.raw.size(); ++i) {
    const std::string bytes = BytesOf(ours.raw[i]);
    EXPECT_EQ(bytes, theirs.raw_input_contents(static_cast<int>(i)));
    EXPECT_EQ(ours.raw[i].size, bytes.size());
  }
}

std::string Hex(std::string_view bytes) {
  std::string out;
  char text[4];
  for (const char c : bytes) {
    std::snprintf(text, sizeof(text), "%02x", static_cast<uint8_t>(c));
    out += text;
  }
  return out;
}

// Parses with both and compares; tells whether the bytes are valid.
bool Compare(std::string_view bytes, std::vector<size_t> cuts) {
  ModelInferRequest theirs;
  const bool expected = theirs.ParseFromString(std::string(bytes));
  const Pieces pieces(bytes, std::move(cuts));
  WireReader reader(pieces.segments(), static_cast<int>(bytes.size()));
  Envelope ours;
  const bool got = ParseEnvelope(reader, Wide(), &ours);
  EXPECT_EQ(got, expected) << reader.fault() << " in " << Hex(bytes);
  EXPECT_EQ(reader.fault().empty(), got);
  if (got && expected) {
    ExpectSame(ours, theirs);
    if (testing::Test::HasFailure()) ADD_FAILURE() << Hex(bytes);
  }
  return got;
}

class EnvelopeTest : public testing::Test {
 protected:
  // protobuf would log every bad string.
  EnvelopeTest() : before_(google::protobuf::SetLogHandler(nullptr)) {}
  ~EnvelopeTest() override { google::protobuf::SetLogHandler(before_); }

 private:
  google::protobuf::LogHandler* before_;
};

TEST_F(EnvelopeTest, AgreesWithProtobufOnRandomMessages) {
  Random random(1);
  for (int i = 0; i < 20000 && !HasFailure(); ++i) {
    const std::string bytes = RandomMessage(random);
    EXPECT_TRUE(Compare(bytes, RandomCuts(random, bytes.size())));
  }
}

TEST_F(EnvelopeTest, AgreesWithProtobufOnMutatedMessages) {
  Random random(2);
  int valid = 0, invalid = 0;
  for (int i = 0; i < 60000 && !HasFailure(); ++i) {
    const std::string bytes = Mutate(random, RandomMessage(random));
    (Compare(bytes, RandomCuts(random, bytes.size())) ? valid : invalid)++;
  }
  // Both kinds must be there in numbers, or the test would say little.
  EXPECT_GT(valid, 5000);
  EXPECT_GT(invalid, 5000);
}

TEST_F(EnvelopeTest, AgreesWithProtobufOnRandomFields) {
  Random random(3);
  int valid = 0, invalid = 0;
  for (int i = 0; i < 60000 && !HasFailure(); ++i) {
    const std::string bytes = RandomFields(random, 4);
    (Compare(bytes, RandomCuts(random, bytes.size())) ? valid : invalid)++;
  }
  EXPECT_GT(valid, 5000);
  EXPECT_GT(invalid, 5000);
}

TEST_F(EnvelopeTest, SameResultWhereverTheSlicesAreCut) {
  Random random(4);
  for (int i = 0; i < 20; ++i) {
    const std::string bytes = RandomMessage(random);
    for (size_t cut = 0; cut <= bytes.size() && !HasFailure(); ++cut) {
      EXPECT_TRUE(Compare(bytes, {cut}));
    }
    std::vector<size_t> every(bytes.size());
    for (size_t at = 0; at < every.size(); ++at) every[at] = at;
    EXPECT_TRUE(Compare(bytes, every));
  }
}

TEST_F(EnvelopeTest, EveryTruncationAgrees) {
  Random random(5);
  for (int i = 0; i < 30; ++i) {
    const std::string bytes = RandomMessage(random);
    for (size_t size = 0; size <= bytes.size() && !HasFailure(); ++size) {
      Compare(std::string_view(bytes).substr(0, size), {size / 2});
    }
  }
}

TEST_F(EnvelopeTest, StrictPlaces) {
  const std::string name = "\x0a\x01m";
  // A tag and a length of six bytes; field number 0; a lone end of a group.
  EXPECT_FALSE(Compare(Varint(10, 5) + "\x01m", {}));
  EXPECT_FALSE(Compare("\x0a" + Varint(1, 5) + "m", {}));
  EXPECT_TRUE(Compare(Varint(10, 4) + "\x01m", {}));
  EXPECT_TRUE(Compare("\x0a" + Varint(1, 4) + "m", {}));
  EXPECT_FALSE(Compare(name + std::string(1, '\0'), {}));
  EXPECT_FALSE(Compare(name + "\x02\x01x", {}));
  EXPECT_FALSE(Compare(name + "\x0c", {}));
  EXPECT_FALSE(Compare(name + "\x0e\x0f", {}));
  // A number of eleven bytes, a length of 2 GiB and one beyond its message.
  EXPECT_FALSE(Compare(name + "\x78" + std::string(10, '\xff') + "\x01", {}));
  EXPECT_FALSE(Compare(name + "\x0a\xff\xff\xff\xff\x07", {}));
  EXPECT_FALSE(Compare(name + "\x2a\x02\x0a\x05hello", {}));
  // Text that is not UTF-8, in every place that holds text.
  EXPECT_FALSE(Compare("\x0a\x01\xff", {}));
  EXPECT_FALSE(Compare("\x0a\x09" "12345678\xe9", {}));
  EXPECT_FALSE(Compare("\x22\x03\x0a\x01\xff", {}));
  EXPECT_FALSE(Compare("\x22\x05\x12\x03\x1a\x01\xff", {}));
  EXPECT_TRUE(Compare("\x3a\x01\xff", {}));  // bytes may be anything
}

TEST_F(EnvelopeTest, GroupsNestUpToProtobufsLimit) {
  for (const int depth : {1, 98, 99, 100, 101, 5000}) {
    std::string open, close;
    for (int i = 0; i < depth; ++i) {
      open += Varint(9 << 3 | 3);
      close += Varint(9 << 3 | 4);
    }
    EXPECT_EQ(Compare(open + close, {}), depth <= 100) << depth;
    // One level less inside an input.
    EXPECT_EQ(Compare("\x2a" + Varint(2 * depth) + open + close, {}), depth <= 99) << depth;
  }
}

TEST_F(EnvelopeTest, LimitsStopBeforeMemoryIsTaken) {
  DecodeLimits limits;
  limits.max_inputs = 2;
  limits.max_outputs = 2;
  limits.max_parameters = 2;
  limits.max_name_bytes = 8;
  limits.max_contents_bytes = 64;
  auto fault = [&](const std::string& bytes) {
    const Pieces pieces(bytes);
    WireReader reader(pieces.segments(), static_cast<int>(bytes.size()));
    Envelope envelope;
    const bool ok = ParseEnvelope(reader, limits, &envelope);
    EXPECT_EQ(ok, reader.fault().empty());
    return reader.fault();
  };
  auto times = [](int n, const std::string& s) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  EXPECT_EQ(fault(times(2, std::string("\x2a\x00", 2))), "");
  EXPECT_EQ(fault(times(3, std::string("\x2a\x00", 2))), "more than 2 inputs");
  EXPECT_EQ(fault(times(3, std::string("\x32\x00", 2))), "more than 2 outputs");
  EXPECT_EQ(fault(times(3, std::string("\x3a\x00", 2))), "more than 2 raw_input_contents");
  // The same key again and again counts too.
  EXPECT_EQ(fault(times(3, std::string("\x22\x03\x0a\x01k"))), "more than 2 parameters");
  EXPECT_EQ(fault("\x0a\x09" "123456789"), "model_name has 9 bytes, expected at most 8");
  EXPECT_EQ(fault("\x2a\x0b\x0a\x09" "123456789"),
            "an input's name has 9 bytes, expected at most 8");
  // 17 packed varints of one byte are 68 bytes as int32.
  const std::string packed = "\x12\x11" + std::string(17, '\x01');
  EXPECT_NE(fault("\x2a\x15\x2a\x13" + packed).find("typed contents take more memory"),
            std::string::npos);
  const std::string fits = "\x12\x10" + std::string(16, '\x01');
  EXPECT_EQ(fault("\x2a\x14\x2a\x12" + fits), "");
}

TEST_F(EnvelopeTest, LongShapeIsCountedButNotKept) {
  inference::ModelInferRequest r;
  auto* input = r.add_inputs();
  for (int i = 0; i < 100000; ++i) input->add_shape(1);
  const std::string bytes = r.SerializeAsString();
  const Pieces pieces(bytes);
  WireReader reader(pieces.segments(), static_cast<int>(bytes.size()));
  Envelope envelope;
  ASSERT_TRUE(ParseEnvelope(reader, Wide(), &envelope));
  EXPECT_EQ(envelope.inputs[0].rank, 100000u);
  EXPECT_EQ(envelope.inputs[0].shape.size(), kKeptDims);
}

TEST_F(EnvelopeTest, RawContentsAreNotCopied) {
  inference::ModelInferRequest r;
  r.add_raw_input_contents(std::string(1000, 'x'));
  const std::string bytes = r.SerializeAsString();
  const Pieces pieces(bytes, {500});
  WireReader reader(pieces.segments(), static_cast<int>(bytes.size()));
  Envelope envelope;
  ASSERT_TRUE(ParseEnvelope(reader, Wide(), &envelope));
  ASSERT_EQ(envelope.raw[0].segments.size(), 2u);
  EXPECT_EQ(envelope.raw[0].segments[0].data, pieces.segments()[0].data + 3);
  EXPECT_EQ(envelope.raw[0].segments[1].data, pieces.segments()[1].data);
}

}  // namespace
}  // namespace belfry::wire
