#include "server/wire/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "server/wire/test_messages.h"

namespace belfry::wire {
namespace {

using inference::ModelInferRequest;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// What the decoder found wrong with a request that it could read; "OK": nothing.
std::string FaultsOf(const Request& request) {
  if (request.faults.empty()) return "OK";
  const absl::Status status = request.faults.ToStatus("model " + Quote(request.model_name));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

// A request and the memory that its payloads look at.
struct Decoded {
  Pieces pieces;
  absl::StatusOr<Request> request;
  explicit Decoded(const std::string& bytes, std::vector<size_t> cuts = {})
      : pieces(bytes, std::move(cuts)), request(DecodeInferRequest(pieces.segments())) {}

  // "OK": neither an error nor a fault.
  std::string Fault() const {
    return request.ok() ? FaultsOf(*request) : std::string(request.status().message());
  }
};

std::string ErrorOf(const ModelInferRequest& r) {
  Decoded d(r.SerializeAsString());
  return d.Fault();
}

ModelInferRequest Base() {
  ModelInferRequest r;
  r.set_model_name("m");
  return r;
}

// One input 'x' with typed contents filled by 'fill'.
template <typename Fill>
ModelInferRequest Typed(const std::string& type, const std::vector<int64_t>& shape, Fill&& fill) {
  ModelInferRequest r = Base();
  fill(AddInput(&r, "x", type, shape)->mutable_contents());
  return r;
}

template <typename Fill>
std::string PayloadOf(const std::string& type, int64_t count, Fill&& fill) {
  Decoded d(Typed(type, {count}, fill).SerializeAsString());
  EXPECT_TRUE(d.request.ok()) << d.request.status();
  if (!d.request.ok()) return "";
  EXPECT_EQ(FaultsOf(*d.request), "OK");
  return BytesOf(d.request->inputs[0].payload);
}

TEST(DecodeTest, RawRequest) {
  ModelInferRequest r = Base();
  r.set_model_version("@champion");
  r.set_id("42");
  AddInput(&r, "x", "FP32", {1, 3});
  AddInput(&r, "y", "INT64", {1});
  const std::string x = RawOf<float>({1, 2, 3}), y = RawOf<int64_t>({7});
  r.add_raw_input_contents(x);
  r.add_raw_input_contents(y);
  r.add_outputs()->set_name("out");
  const std::string bytes = r.SerializeAsString();
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    Decoded d(bytes, {cut});
    ASSERT_EQ(d.Fault(), "OK");
    const Request& q = *d.request;
    EXPECT_EQ(q.model_name, "m");
    EXPECT_EQ(q.model_version, "@champion");
    EXPECT_EQ(q.id, "42");
    ASSERT_EQ(q.inputs.size(), 2u);
    EXPECT_EQ(q.inputs[0].name, "x");
    EXPECT_EQ(q.inputs[0].dtype, DataType::kFp32);
    EXPECT_EQ(q.inputs[0].shape, (Shape{1, 3}));
    EXPECT_EQ(BytesOf(q.inputs[0].payload), x);
    EXPECT_EQ(BytesOf(q.inputs[1].payload), y);
    ASSERT_EQ(q.outputs.size(), 1u);
    EXPECT_EQ(q.outputs[0].name, "out");
    EXPECT_EQ(q.priority, 0u);
    EXPECT_EQ(q.timeout_us, 0);
  }
}

TEST(DecodeTest, ByteBufferKeepsItsSlicesAliveEvenSmallOnes) {
  ModelInferRequest r = Base();
  AddInput(&r, "x", "FP32", {3});
  const std::string x = RawOf<float>({1, 2, 3});
  r.add_raw_input_contents(x);
  const std::string bytes = r.SerializeAsString();
  // Slices of up to 23 bytes hold their bytes in themselves.
  for (const size_t step : {size_t{1}, size_t{7}, size_t{24}, bytes.size()}) {
    std::vector<grpc::Slice> slices;
    for (size_t at = 0; at < bytes.size(); at += step) {
      slices.emplace_back(bytes.substr(at, step));
    }
    grpc::ByteBuffer buffer(slices.data(), slices.size());
    slices.clear();
    absl::StatusOr<Request> request = DecodeInferRequest(std::move(buffer));
    ASSERT_TRUE(request.ok()) << request.status();
    const Request moved = *std::move(request);
    EXPECT_EQ(BytesOf(moved.inputs[0].payload), x);
  }
}

TEST(DecodeTest, EmptyBufferIsAnEmptyRequest) {
  const auto request = DecodeInferRequest(grpc::ByteBuffer());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(FaultsOf(*request), "model '': model_name is empty");
}

TEST(DecodeTest, MalformedBytesNameTheModelAndThePlace) {
  Decoded d("\x0a\x01m\x3a\x05x");
  ASSERT_FALSE(d.request.ok());
  EXPECT_EQ(d.request.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(d.request.status().message(),
            "model 'm': not a valid ModelInferRequest: length reaches beyond the end near byte 5");
}

TEST(DecodeTest, TypedContentsBecomeWireBytes) {
  using C = inference::InferTensorContents;
  EXPECT_EQ(PayloadOf("BOOL", 2,
                      [](C* c) {
                        c->add_bool_contents(true);
                        c->add_bool_contents(false);
                      }),
            std::string("\1\0", 2));
  EXPECT_EQ(PayloadOf("INT8", 2,
                      [](C* c) {
                        c->add_int_contents(-128);
                        c->add_int_contents(127);
                      }),
            RawOf<int8_t>({-128, 127}));
  EXPECT_EQ(PayloadOf("INT16", 1, [](C* c) { c->add_int_contents(-32768); }),
            RawOf<int16_t>({-32768}));
  EXPECT_EQ(PayloadOf("INT32", 1, [](C* c) { c->add_int_contents(INT32_MIN); }),
            RawOf<int32_t>({INT32_MIN}));
  EXPECT_EQ(PayloadOf("INT64", 1, [](C* c) { c->add_int64_contents(INT64_MIN); }),
            RawOf<int64_t>({INT64_MIN}));
  EXPECT_EQ(PayloadOf("UINT8", 1, [](C* c) { c->add_uint_contents(255); }),
            RawOf<uint8_t>({255}));
  EXPECT_EQ(PayloadOf("UINT16", 1, [](C* c) { c->add_uint_contents(65535); }),
            RawOf<uint16_t>({65535}));
  EXPECT_EQ(PayloadOf("UINT32", 1, [](C* c) { c->add_uint_contents(UINT32_MAX); }),
            RawOf<uint32_t>({UINT32_MAX}));
  EXPECT_EQ(PayloadOf("UINT64", 1, [](C* c) { c->add_uint64_contents(UINT64_MAX); }),
            RawOf<uint64_t>({UINT64_MAX}));
  EXPECT_EQ(PayloadOf("FP32", 2,
                      [](C* c) {
                        c->add_fp32_contents(1.5f);
                        c->add_fp32_contents(-0.0f);
                      }),
            RawOf<float>({1.5f, -0.0f}));
  EXPECT_EQ(PayloadOf("FP64", 1, [](C* c) { c->add_fp64_contents(1e300); }),
            RawOf<double>({1e300}));
  EXPECT_EQ(PayloadOf("BYTES", 2,
                      [](C* c) {
                        c->add_bytes_contents("ab");
                        c->add_bytes_contents("");
                      }),
            Elements({"ab", ""}));
}

TEST(DecodeTest, AnyNumberButZeroIsATypedTrue) {
  // bool_contents, packed: 2 and 0.
  Decoded d("\x0a\x01m\x2a\x12\x0a\x01x\x12\x04" "BOOL\x1a\x01\x02\x2a\x04\x0a\x02\x02" +
            std::string(1, '\0'));
  ASSERT_EQ(d.Fault(), "OK");
  EXPECT_EQ(BytesOf(d.request->inputs[0].payload), std::string("\1\0", 2));
}

TEST(DecodeTest, TypedFaults) {
  using C = inference::InferTensorContents;
  EXPECT_EQ(ErrorOf(Typed("INT8", {1}, [](C* c) { c->add_int_contents(300); })),
            "model 'm': input 'x': element 0 of int_contents is 300, expected the range of INT8");
  EXPECT_EQ(ErrorOf(Typed("UINT16", {2},
                          [](C* c) {
                            c->add_uint_contents(1);
                            c->add_uint_contents(65536);
                          })),
            "model 'm': input 'x': element 1 of uint_contents is 65536, expected the range of "
            "UINT16");
  EXPECT_EQ(ErrorOf(Typed("INT64", {1}, [](C* c) { c->add_int_contents(1); })),
            "model 'm': input 'x': got int_contents, expected int64_contents for INT64");
  EXPECT_EQ(ErrorOf(Typed("FP16", {1}, [](C* c) { c->add_fp32_contents(1); })),
            "model 'm': input 'x': got fp32_contents, expected raw_input_contents for FP16");
  EXPECT_EQ(ErrorOf(Typed("BF16", {1}, [](C* c) { c->add_fp32_contents(1); })),
            "model 'm': input 'x': got fp32_contents, expected raw_input_contents for BF16");
  EXPECT_EQ(ErrorOf(Typed("FP32", {2, 2}, [](C* c) { c->add_fp32_contents(1); })),
            "model 'm': input 'x': got 1 elements in fp32_contents, expected 4 for shape [2,2]");
  EXPECT_EQ(ErrorOf(Typed("BYTES", {2}, [](C* c) { c->add_bytes_contents("a"); })),
            "model 'm': input 'x': got 1 elements in bytes_contents, expected 2 for shape [2]");
  EXPECT_EQ(ErrorOf(Typed("FP32", {1}, [](C*) {})),
            "model 'm': input 'x': has no data, expected raw_input_contents or contents");
}

TEST(DecodeTest, RawAndTypedTogether) {
  ModelInferRequest r = Base();
  AddInput(&r, "x", "FP32", {1})->mutable_contents()->add_fp32_contents(1);
  r.add_raw_input_contents(RawOf<float>({1}));
  EXPECT_EQ(ErrorOf(r),
            "model 'm': input 'x': has typed contents while raw_input_contents is used, expected "
            "one of the two");
  // An empty 'contents' beside raw data says nothing and is let pass.
  r.mutable_inputs(0)->mutable_contents()->clear_fp32_contents();
  EXPECT_EQ(ErrorOf(r), "OK");
}

TEST(DecodeTest, OneRawEntryForEachInput) {
  ModelInferRequest r = Base();
  AddInput(&r, "x", "FP32", {1});
  AddInput(&r, "y", "FP32", {1});
  r.add_raw_input_contents(RawOf<float>({1}));
  EXPECT_EQ(ErrorOf(r),
            "model 'm': got 1 raw_input_contents, expected 2, one for each input");
  r.add_raw_input_contents(RawOf<float>({1}));
  EXPECT_EQ(ErrorOf(r), "OK");
  r.add_raw_input_contents(RawOf<float>({1}));
  EXPECT_EQ(ErrorOf(r),
            "model 'm': got 3 raw_input_contents, expected 2, one for each input");
}

TEST(DecodeTest, ATensorWithoutElementsNeedsNoData) {
  ModelInferRequest r = Base();
  AddInput(&r, "x", "FP32", {0, 3});
  EXPECT_EQ(ErrorOf(r), "OK");
  r.add_raw_input_contents("");
  EXPECT_EQ(ErrorOf(r), "OK");
}

TEST(DecodeTest, BytesElementsAreWalked) {
  auto error = [](const std::string& raw, int64_t count) {
    ModelInferRequest r = Base();
    AddInput(&r, "s", "BYTES", {count});
    r.add_raw_input_contents(raw);
    const std::string bytes = r.SerializeAsString();
    std::string first;
    for (size_t cut = 0; cut <= bytes.size(); ++cut) {
      Decoded d(bytes, {cut});
      const std::string text = d.Fault();
      if (cut == 0) first = text;
      EXPECT_EQ(text, first) << "cut at " << cut;
    }
    return first;
  };
  EXPECT_EQ(error(Elements({"abc", "", "d"}), 3), "OK");
  EXPECT_EQ(error(Elements({"abc"}), 2),
            "model 'm': input 's': got 1 BYTES elements, expected 2 for shape [2]");
  EXPECT_EQ(error(Elements({"a", "b"}) + "xy", 2),
            "model 'm': input 's': element 2 begins 2 bytes before the end, expected a length of "
            "4 bytes");
  EXPECT_EQ(error(std::string("\x05\x00\x00\x00" "ab", 6), 1),
            "model 'm': input 's': element 0 has length 5, expected at most 2, which is what is "
            "left");
  EXPECT_THAT(error(std::string(4, '\xff'), 1), HasSubstr("length 4294967295"));
}

TEST(DecodeTest, ShapeAndTypeFaults) {
  ModelInferRequest r = Base();
  AddInput(&r, "a", "FP128", {1});
  AddInput(&r, "b", "FP32", {2, -1});
  AddInput(&r, "c", "FP64", {int64_t{1} << 62, 4});
  AddInput(&r, "d", "FP64", {int64_t{1} << 61});
  AddInput(&r, "e", "FP32", std::vector<int64_t>(13, 1));
  AddInput(&r, "", "INVALID", {1});
  for (int i = 0; i < 6; ++i) r.add_raw_input_contents("");
  const std::string error = ErrorOf(r);
  EXPECT_THAT(error, HasSubstr("input 'a': got datatype 'FP128', expected one of BOOL, UINT8, "));
  EXPECT_THAT(error, HasSubstr("FP64, BYTES; "));
  EXPECT_THAT(error, HasSubstr("input 'b': got shape [2,-1], expected no negative dimension"));
  EXPECT_THAT(error, HasSubstr("input 'c': got shape [4611686018427387904,4], expected a size "
                               "that fits 63 bits"));
  EXPECT_THAT(error, HasSubstr("input 'd': got shape [2305843009213693952], expected a size"));
  EXPECT_THAT(error, HasSubstr("input 'e': got 13 dimensions, expected at most 12"));
  EXPECT_THAT(error, HasSubstr("input '': has no name"));
  EXPECT_THAT(error, HasSubstr("input '': got datatype 'INVALID'"));
}

TEST(DecodeTest, ClientsStringsAreQuotedEscapedAndCut) {
  ModelInferRequest r = Base();
  r.set_model_name("a\nb'\x1b[31m");
  AddInput(&r, std::string(500, 'n'), "é", {1});
  r.add_raw_input_contents("");
  const std::string error = ErrorOf(r);
  EXPECT_THAT(error, StartsWith("model 'a\\nb\\'\\x1b[31m': "));
  EXPECT_THAT(error, HasSubstr("'" + std::string(128, 'n') + "…'"));
  EXPECT_THAT(error, HasSubstr("'\\xc3\\xa9'"));
}

TEST(DecodeTest, ManyFaultsMakeABoundedMessage) {
  ModelInferRequest r = Base();
  for (int i = 0; i < 128; ++i) {
    AddInput(&r, std::string(200, 'n'), "NONE", {-1});
  }
  const std::string error = ErrorOf(r);
  EXPECT_LT(error.size(), 4096u);
  EXPECT_THAT(error, HasSubstr("; and "));
  EXPECT_THAT(error, HasSubstr(" more"));
}

TEST(DecodeTest, WhatCouldBeReadIsThereBesideTheFaults) {
  ModelInferRequest r = Base();
  r.set_model_version("3");
  r.set_id("42");
  AddInput(&r, "type", "FLOAT", {2});
  AddInput(&r, "shape", "FP32", {-1});
  AddInput(&r, "payload", "BYTES", {1});
  AddInput(&r, "fine", "FP32", {1});
  for (const char* raw : {"12345678", "", "12", "1234"}) r.add_raw_input_contents(raw);
  r.add_outputs()->set_name("y");
  Decoded d(r.SerializeAsString());
  ASSERT_TRUE(d.request.ok()) << d.request.status();
  const Request& q = *d.request;
  EXPECT_FALSE(q.faults.empty());
  EXPECT_EQ(q.model_name + q.model_version + q.id, "m342");
  ASSERT_EQ(q.inputs.size(), 4u);
  EXPECT_EQ(q.inputs[0].dtype, DataType::kInvalid);
  EXPECT_EQ(q.inputs[0].shape, (Shape{2}));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(q.inputs[i].shape_refused, i == 1) << i;
    EXPECT_EQ(q.inputs[i].payload_refused, i == 2) << i;
  }
  EXPECT_EQ(BytesOf(q.inputs[3].payload), "1234");
  ASSERT_EQ(q.outputs.size(), 1u);
}

TEST(DecodeTest, PriorityAndTimeout) {
  ModelInferRequest r = Base();
  auto& p = *r.mutable_parameters();
  p["priority"].set_uint64_param(1);
  p["timeout"].set_int64_param(250000);
  Decoded d(r.SerializeAsString());
  ASSERT_EQ(d.Fault(), "OK");
  EXPECT_EQ(d.request->priority, 1u);
  EXPECT_EQ(d.request->timeout_us, 250000);

  p["priority"].set_int64_param(int64_t{1} << 40);
  p["timeout"].set_uint64_param(UINT64_MAX);
  Decoded large(r.SerializeAsString());
  ASSERT_EQ(large.Fault(), "OK");
  EXPECT_EQ(large.request->priority, UINT32_MAX);
  EXPECT_EQ(large.request->timeout_us, INT64_MAX);

  p["priority"].set_int64_param(-1);
  p["timeout"].set_string_param("5");
  const std::string error = ErrorOf(r);
  EXPECT_THAT(error, HasSubstr("parameter 'priority': got int64_param -1, expected int64_param or "
                               "uint64_param, at least 0"));
  EXPECT_THAT(error, HasSubstr("parameter 'timeout': got string_param '5', expected"));
}

TEST(DecodeTest, SequencesAreRefusedUnlessTheySayNone) {
  ModelInferRequest r = Base();
  auto& p = *r.mutable_parameters();
  p["sequence_id"].set_int64_param(0);
  p["sequence_start"].set_bool_param(false);
  p["sequence_end"].set_bool_param(false);
  p["triton_enable_empty_final_response"].set_bool_param(true);
  p["binary_data_output"].set_bool_param(true);
  p["my_own"].set_string_param("whatever");
  EXPECT_EQ(ErrorOf(r), "OK");
  p["sequence_id"].set_string_param("");
  EXPECT_EQ(ErrorOf(r), "OK");
  p["sequence_id"].set_string_param("s1");
  p["sequence_start"].set_bool_param(true);
  const std::string error = ErrorOf(r);
  EXPECT_THAT(error, HasSubstr("parameter 'sequence_id': got string_param 's1', but sequences are "
                               "not offered"));
  EXPECT_THAT(error, HasSubstr("parameter 'sequence_start': got bool_param true"));
  EXPECT_THAT(error, Not(HasSubstr("sequence_end")));
}

TEST(DecodeTest, SharedMemoryIsRefusedByName) {
  ModelInferRequest r = Base();
  auto* input = AddInput(&r, "x", "FP32", {0});
  (*input->mutable_parameters())["shared_memory_region"].set_string_param("r");
  (*input->mutable_parameters())["binary_data_size"].set_int64_param(4);
  auto* output = r.add_outputs();
  output->set_name("y");
  (*output->mutable_parameters())["shared_memory_byte_size"].set_int64_param(4);
  const std::string error = ErrorOf(r);
  EXPECT_THAT(error, HasSubstr("input 'x': parameter 'shared_memory_region': shared memory is not "
                               "offered"));
  EXPECT_THAT(error, HasSubstr("output 'y': parameter 'shared_memory_byte_size': shared memory"));
}

TEST(DecodeTest, Classification) {
  ModelInferRequest r = Base();
  auto* output = r.add_outputs();
  output->set_name("y");
  auto& p = *output->mutable_parameters();
  p["classification"].set_int64_param(3);
  p["binary_data"].set_bool_param(true);
  Decoded d(r.SerializeAsString());
  ASSERT_EQ(d.Fault(), "OK");
  EXPECT_EQ(d.request->outputs[0].classification, 3u);
  p["classification"].set_bool_param(true);
  EXPECT_THAT(ErrorOf(r), HasSubstr("output 'y': parameter 'classification': got bool_param true, "
                                    "expected int64_param or uint64_param, at least 0"));
}

TEST(DecodeTest, MergedAndUnpackedContents) {
  // Two 'contents' of one input are merged; the second is not packed.
  const std::string head = "\x0a\x01x\x12\x04" "FP32\x1a\x01\x03";
  const std::string packed = "\x2a\x0a\x32\x08" + RawOf<float>({1, 2});
  const std::string unpacked = "\x2a\x05\x35" + RawOf<float>({3});
  const std::string input = head + packed + unpacked;
  std::string bytes = "\x0a\x01m\x2a";
  bytes.push_back(static_cast<char>(input.size()));
  Decoded d(bytes + input);
  ASSERT_EQ(d.Fault(), "OK");
  EXPECT_EQ(BytesOf(d.request->inputs[0].payload), RawOf<float>({1, 2, 3}));
}

}  // namespace
}  // namespace belfry::wire
