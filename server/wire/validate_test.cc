#include "server/wire/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "server/wire/decode.h"
#include "server/wire/test_messages.h"

namespace belfry::wire {
namespace {

using testing::HasSubstr;

Dim Fixed(int64_t n) { return {.kind = Dim::Kind::kFixed, .size = n, .text = ""}; }
Dim Symbol(const std::string& s) { return {.kind = Dim::Kind::kSymbol, .size = 0, .text = s}; }
Dim Expression(const std::string& s) {
  return {.kind = Dim::Kind::kExpression, .size = 0, .text = s};
}

TensorSpec Spec(const std::string& name, DataType dtype, std::vector<Dim> dims, int axis) {
  TensorSpec spec;
  spec.name = name;
  spec.dtype = dtype;
  spec.dims = std::move(dims);
  spec.batch_axis = axis;
  return spec;
}

// ids, mask: [batch, seq]; output: [batch, 4].
Signature Encoder() {
  Signature s;
  s.inputs = {Spec("ids", DataType::kInt64, {Symbol("batch"), Symbol("seq")}, 0),
              Spec("mask", DataType::kInt64, {Symbol("batch"), Symbol("seq")}, 0)};
  s.outputs = {Spec("embedding", DataType::kFp32, {Symbol("batch"), Fixed(4)}, 0),
               Spec("names", DataType::kBytes, {Symbol("batch")}, 0)};
  s.symbols = {{"batch", {1, 8}}, {"seq", {2, 128}}};
  s.batchable = true;
  s.batch_symbol = "batch";
  return s;
}

// x: [7, batch, 2]
Signature Recurrent() {
  Signature s;
  s.inputs = {Spec("x", DataType::kFp32, {Fixed(7), Symbol("batch"), Fixed(2)}, 1)};
  s.outputs = {Spec("y", DataType::kFp32, {Symbol("batch"), Fixed(1)}, 0)};
  s.symbols = {{"batch", {1, INT64_MAX}}};
  s.batchable = true;
  s.batch_symbol = "batch";
  return s;
}

class ValidateTest : public testing::Test {
 protected:
  void Add(const std::string& name, DataType dtype, Shape shape, int64_t bytes = -1) {
    RequestTensor t;
    t.name = name;
    t.dtype = dtype;
    t.shape = std::move(shape);
    int64_t size = static_cast<int64_t>(DataTypeSize(dtype));
    for (const int64_t d : t.shape) size *= d;
    t.payload.size = static_cast<size_t>(bytes >= 0 ? bytes : size);
    request_.inputs.push_back(std::move(t));
  }

  void Ask(const std::string& output, uint32_t classification = 0) {
    request_.outputs.push_back({output, classification});
  }

  absl::StatusOr<Binding> Run(const Signature& s) { return Validate("m", "3", s, &request_); }

  std::string Error(const Signature& s) {
    const auto result = Run(s);
    if (result.ok()) return "OK";
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status().message());
  }

  Request request_;
};

TEST_F(ValidateTest, BindsAndSorts) {
  Add("mask", DataType::kInt64, {3, 16});
  Add("ids", DataType::kInt64, {3, 16});
  const auto binding = Run(Encoder());
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_EQ(binding->rows, 3);
  EXPECT_EQ(binding->symbols, (absl::InlinedVector<int64_t, 4>{16}));
  EXPECT_EQ(binding->shape_key, "16");
  EXPECT_TRUE(binding->joinable);
  EXPECT_EQ(request_.inputs[0].name, "ids");
  EXPECT_EQ(request_.inputs[1].name, "mask");
}

TEST_F(ValidateTest, SortsAnyOrder) {
  Signature s;
  for (const char* name : {"a", "b", "c", "d"}) {
    s.inputs.push_back(Spec(name, DataType::kInt8, {Fixed(1)}, -1));
  }
  std::vector<std::string> order = {"a", "b", "c", "d"};
  do {
    request_.inputs.clear();
    for (const auto& name : order) Add(name, DataType::kInt8, {1});
    ASSERT_EQ(Error(s), "OK");
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(request_.inputs[i].name, s.inputs[i].name);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(ValidateTest, BatchOnAnotherAxis) {
  Add("x", DataType::kFp32, {7, 5, 2});
  const auto binding = Run(Recurrent());
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_EQ(binding->rows, 5);
  EXPECT_TRUE(binding->symbols.empty());
  EXPECT_EQ(binding->shape_key, "");
}

TEST_F(ValidateTest, MissingAndUnexpectedInputsListTheExpected) {
  Add("idz", DataType::kInt64, {1, 16});
  Add("mask", DataType::kInt64, {1, 16});
  EXPECT_EQ(Error(Encoder()),
            "model 'm' version 3: unexpected input 'idz'; input 'ids' is missing; expected inputs: "
            "'ids' INT64 [batch,seq], 'mask' INT64 [batch,seq]");
}

TEST_F(ValidateTest, AnInputGivenTwice) {
  Add("ids", DataType::kInt64, {1, 16});
  Add("ids", DataType::kInt64, {1, 16});
  EXPECT_THAT(Error(Encoder()), HasSubstr("input 'ids' is given twice"));
}

TEST_F(ValidateTest, TypeRankAndFixedSizes) {
  Add("x", DataType::kFp64, {7, 5, 2});
  EXPECT_EQ(Error(Recurrent()),
            "model 'm' version 3: input 'x': got FP64 [7,5,2], expected FP32 [7,batch,2]");
  request_.inputs.clear();
  Add("x", DataType::kFp32, {7, 5});
  EXPECT_EQ(Error(Recurrent()),
            "model 'm' version 3: input 'x': got FP32 [7,5], expected FP32 [7,batch,2]");
  request_.inputs.clear();
  Add("x", DataType::kFp32, {7, 5, 3});
  EXPECT_EQ(Error(Recurrent()),
            "model 'm' version 3: input 'x': got FP32 [7,5,3], expected FP32 [7,batch,2]");
  request_.inputs.clear();
  Add("x", DataType::kFp32, {7, -5, 2}, 0);
  EXPECT_EQ(Error(Recurrent()),
            "model 'm' version 3: input 'x': got FP32 [7,-5,2], expected FP32 [7,batch,2]");
}

TEST_F(ValidateTest, SymbolsAgreeAcrossInputs) {
  Add("ids", DataType::kInt64, {2, 16});
  Add("mask", DataType::kInt64, {3, 17});
  const std::string error = Error(Encoder());
  EXPECT_THAT(error, HasSubstr("input 'mask': got INT64 [3,17], expected INT64 [batch,seq] with "
                               "batch = 2 as in input 'ids'"));
  EXPECT_THAT(error, HasSubstr("with seq = 16 as in input 'ids'"));
}

TEST_F(ValidateTest, SymbolRanges) {
  Add("ids", DataType::kInt64, {1, 129});
  Add("mask", DataType::kInt64, {1, 129});
  EXPECT_EQ(Error(Encoder()),
            "model 'm' version 3: input 'ids': got seq = 129, expected 2 to 128");
  request_.inputs.clear();
  Add("ids", DataType::kInt64, {1, 1});
  Add("mask", DataType::kInt64, {1, 1});
  EXPECT_EQ(Error(Encoder()), "model 'm' version 3: input 'ids': got seq = 1, expected 2 to 128");
}

TEST_F(ValidateTest, ZeroRows) {
  Add("x", DataType::kFp32, {7, 0, 2});
  EXPECT_EQ(Error(Recurrent()),
            "model 'm' version 3: got a batch of 0 rows, expected at least 1");
}

TEST_F(ValidateTest, MoreRowsThanTheMaximumAreSplitOrRefused) {
  Add("ids", DataType::kInt64, {9, 16});
  Add("mask", DataType::kInt64, {9, 16});
  Signature s = Encoder();
  const auto binding = Run(s);
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_EQ(binding->rows, 9);

  s.batchable = false;
  s.unbatched_reason = "rows see each other";
  EXPECT_EQ(Error(s),
            "model 'm' version 3: input 'ids': got batch = 9, expected 1 to 8 rows (the model is "
            "not batched, so a request is not split)");
  request_.inputs.clear();
  Add("ids", DataType::kInt64, {8, 16});
  Add("mask", DataType::kInt64, {8, 16});
  const auto whole = Run(s);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->rows, 1);
  EXPECT_FALSE(whole->joinable);
}

TEST_F(ValidateTest, FewerRowsThanTheSymbolsMinimumArePaddedOrRefused) {
  Signature s = Encoder();
  s.symbols["batch"].min = 2;
  Add("ids", DataType::kInt64, {1, 16});
  Add("mask", DataType::kInt64, {1, 16});
  EXPECT_EQ(Error(s), "OK");
  s.batchable = false;
  EXPECT_THAT(Error(s), HasSubstr("got batch = 1, expected 2 to 8 rows"));
}

TEST_F(ValidateTest, FixedBatchTakesAnyRows) {
  Signature s;
  s.inputs = {Spec("a", DataType::kFp32, {Fixed(4), Fixed(2)}, 0),
              Spec("b", DataType::kFp32, {Fixed(3), Fixed(4)}, 1)};
  s.outputs = {Spec("y", DataType::kFp32, {Fixed(4)}, 0)};
  s.batchable = true;
  s.fixed_batch = 4;
  for (const int64_t rows : {1, 4, 9}) {
    request_.inputs.clear();
    Add("a", DataType::kFp32, {rows, 2});
    Add("b", DataType::kFp32, {3, rows});
    const auto binding = Run(s);
    ASSERT_TRUE(binding.ok()) << binding.status();
    EXPECT_EQ(binding->rows, rows);
    EXPECT_TRUE(binding->joinable);
  }
  request_.inputs.clear();
  Add("a", DataType::kFp32, {1, 2});
  Add("b", DataType::kFp32, {3, 2});
  EXPECT_THAT(Error(s), HasSubstr("input 'b': got FP32 [3,2], expected FP32 [3,4] with the batch "
                                  "= 1 as in input 'a'"));
  request_.inputs.clear();
  Add("a", DataType::kFp32, {0, 2});
  Add("b", DataType::kFp32, {3, 0});
  EXPECT_THAT(Error(s), HasSubstr("got a batch of 0 rows"));
  s.batchable = false;  // then the size is just a size
  EXPECT_THAT(Error(s), HasSubstr("input 'a': got FP32 [0,2], expected FP32 [4,2]"));
}

TEST_F(ValidateTest, ByteSizeMatchesExactly) {
  for (const int64_t bytes : {0, 55, 57, 112}) {
    request_.inputs.clear();
    Add("x", DataType::kFp32, {7, 1, 2}, bytes);
    EXPECT_EQ(Error(Recurrent()), "model 'm' version 3: input 'x': got " + std::to_string(bytes) +
                                      " bytes, expected 56 for FP32 [7,1,2]");
  }
}

TEST_F(ValidateTest, RowsWithoutDataCannotBeManyRows) {
  Signature s = Encoder();
  s.symbols["seq"].min = 0;
  Add("ids", DataType::kInt64, {int64_t{1} << 40, 0});
  Add("mask", DataType::kInt64, {int64_t{1} << 40, 0});
  EXPECT_THAT(Error(s), HasSubstr("got a batch of 1099511627776 rows that hold no data"));
}

TEST_F(ValidateTest, ExpressionsTakeAnySizeAndAreNotJoined) {
  Signature s = Recurrent();
  s.inputs[0].dims[2] = Expression("2*k");
  Add("x", DataType::kFp32, {7, 2, 6});
  const auto binding = Run(s);
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_FALSE(binding->joinable);
}

TEST_F(ValidateTest, AnInputWithoutRowsOfItsOwnIsNotJoined) {
  Signature s = Recurrent();
  s.inputs.push_back(Spec("scale", DataType::kFp32, {Fixed(1)}, -1));
  Add("x", DataType::kFp32, {7, 2, 2});
  Add("scale", DataType::kFp32, {1});
  const auto binding = Run(s);
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_EQ(binding->rows, 2);
  EXPECT_FALSE(binding->joinable);
}

TEST_F(ValidateTest, BytesAreNotJoined) {
  Signature s = Recurrent();
  s.inputs = {Spec("text", DataType::kBytes, {Symbol("batch")}, 0)};
  Add("text", DataType::kBytes, {2}, 8);
  const auto binding = Run(s);
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_FALSE(binding->joinable);
}

TEST_F(ValidateTest, DifferentSymbolValuesHaveDifferentKeys) {
  Signature s = Encoder();
  s.symbols["width"] = {1, 100};
  s.inputs[1].dims.push_back(Symbol("width"));
  auto key = [&](int64_t seq, int64_t width) {
    request_.inputs.clear();
    Add("ids", DataType::kInt64, {2, seq});
    Add("mask", DataType::kInt64, {2, seq, width});
    return Run(s).value().shape_key;
  };
  EXPECT_EQ(key(11, 1), key(11, 1));
  EXPECT_NE(key(11, 1), key(1 + 1, 11));
  EXPECT_NE(key(11, 2), key(2, 11));
}

TEST_F(ValidateTest, RequestedOutputs) {
  Add("ids", DataType::kInt64, {1, 16});
  Add("mask", DataType::kInt64, {1, 16});
  Ask("embedding", 2);
  EXPECT_EQ(Error(Encoder()), "OK");
  Ask("nothing");
  Ask("embedding");
  Ask("names", 1);
  const std::string error = Error(Encoder());
  EXPECT_THAT(error,
              HasSubstr("unknown output 'nothing', expected one of 'embedding', 'names'"));
  EXPECT_THAT(error, HasSubstr("output 'embedding' is asked for twice"));
  EXPECT_THAT(error, HasSubstr("output 'names': classification of a BYTES tensor of rank 1"));
}

TEST_F(ValidateTest, AllFaultsAtOnce) {
  Add("ids", DataType::kInt32, {1, 16});
  Add("mask", DataType::kInt64, {1, 16}, 3);
  Add("more", DataType::kInt64, {1});
  Ask("nothing");
  const std::string error = Error(Encoder());
  EXPECT_THAT(error, HasSubstr("input 'ids': got INT32 [1,16]"));
  EXPECT_THAT(error, HasSubstr("input 'mask': got 3 bytes, expected 128"));
  EXPECT_THAT(error, HasSubstr("unexpected input 'more'"));
  EXPECT_THAT(error, HasSubstr("unknown output 'nothing'"));
}

TEST_F(ValidateTest, ARequestWithFaultsIsNeverBound) {
  Add("ids", DataType::kInt64, {1, 16});
  Add("mask", DataType::kInt64, {1, 16});
  request_.faults.Add("parameter 'timeout': nonsense");
  const std::string expected = "model 'm' version 3: parameter 'timeout': nonsense";
  EXPECT_EQ(Error(Encoder()), expected);
  EXPECT_EQ(Error(Encoder()), expected);  // nor the second time
}

TEST_F(ValidateTest, MarksWithoutFaultsHideNothing) {
  Add("ids", DataType::kInvalid, {1, 16});
  Add("mask", DataType::kInt64, {1, 16}, 3);
  request_.inputs[1].payload_refused = true;
  EXPECT_NE(Error(Encoder()), "OK");
  request_.inputs.clear();
  Add("ids", DataType::kInt64, {1, 16});
  Add("mask", DataType::kInt64, {1, 16}, 3);
  request_.inputs[1].payload_refused = true;
  EXPECT_THAT(Error(Encoder()), HasSubstr("input 'mask': got 3 bytes, expected 128"));
  request_.inputs[1] = RequestTensor();
  request_.inputs[1].name = "mask";
  request_.inputs[1].shape_refused = true;
  EXPECT_THAT(Error(Encoder()), HasSubstr("input 'mask': expected INT64 [batch,seq]"));
  request_.inputs.clear();
  Add("input", DataType::kFp32, {1});
  request_.inputs[0].shape_refused = true;
  EXPECT_NE(Error(EchoSignature()), "OK");
}

// The way of real requests: bytes, decoder, Validate.
class DecodedFaultsTest : public testing::Test {
 protected:
  DecodedFaultsTest() { message_.set_model_name("m"); }

  Request Decode() {
    bytes_ = message_.SerializeAsString();
    const Segment whole{reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()};
    auto request = DecodeInferRequest({&whole, 1});
    EXPECT_TRUE(request.ok()) << request.status();
    return request.ok() ? *std::move(request) : Request();
  }

  std::string Error(const Signature& signature) {
    Request request = Decode();
    const auto binding = Validate("m", "3", signature, &request);
    return binding.ok() ? "OK" : std::string(binding.status().message());
  }

  inference::ModelInferRequest message_;
  std::string bytes_;
};

constexpr char kKnown[] =
    "expected one of BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, BF16, "
    "FP32, FP64, BYTES";

TEST_F(DecodedFaultsTest, BothKindsInOneMessage) {
  AddInput(&message_, "ids", "FLOAT", {1, 16});
  message_.add_raw_input_contents("123");
  (*message_.mutable_parameters())["timeout"].set_bool_param(true);
  message_.add_outputs()->set_name("nothing");
  EXPECT_EQ(Error(Encoder()),
            std::string("model 'm' version 3: parameter 'timeout': got bool_param true, expected "
                        "int64_param or uint64_param, at least 0; input 'ids': got datatype "
                        "'FLOAT', ") +
                kKnown +
                "; input 'ids': expected INT64 [batch,seq]; input 'mask' is missing; unknown "
                "output 'nothing', expected one of 'embedding', 'names'; expected inputs: 'ids' "
                "INT64 [batch,seq], 'mask' INT64 [batch,seq]");
}

TEST_F(DecodedFaultsTest, AShapeThatDoesNotFitIsToldBesideAnUnknownDatatype) {
  AddInput(&message_, "x", "FLOAT", {7, 1, 3});
  message_.add_raw_input_contents("");
  EXPECT_EQ(Error(Recurrent()),
            std::string("model 'm' version 3: input 'x': got datatype 'FLOAT', ") + kKnown +
                "; input 'x': got [7,1,3], expected FP32 [7,batch,2]");
}

TEST_F(DecodedFaultsTest, ARefusedShapeIsNotToldTwice) {
  AddInput(&message_, "x", "FP32", {7, -1, 2});
  message_.add_raw_input_contents("");
  EXPECT_EQ(Error(Recurrent()),
            "model 'm' version 3: input 'x': got shape [7,-1,2], expected no negative dimension; "
            "input 'x': expected FP32 [7,batch,2]");
  message_.mutable_inputs(0)->set_datatype("FP64");
  EXPECT_EQ(Error(Recurrent()),
            "model 'm' version 3: input 'x': got shape [7,-1,2], expected no negative dimension; "
            "input 'x': got FP64, expected FP32 [7,batch,2]");
}

TEST_F(DecodedFaultsTest, ARefusedPayloadIsNotToldTwice) {
  AddInput(&message_, "x", "FP32", {7, 2, 2});
  EXPECT_EQ(Error(Recurrent()),
            "model 'm' version 3: input 'x': has no data, expected raw_input_contents or contents");
  message_.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_EQ(Error(Recurrent()),
            "model 'm' version 3: input 'x': got 1 elements in fp32_contents, expected 28 for "
            "shape [7,2,2]");
  message_.add_raw_input_contents("1234");
  EXPECT_EQ(Error(Recurrent()),
            "model 'm' version 3: input 'x': has typed contents while raw_input_contents is used, "
            "expected one of the two");
  message_.mutable_inputs(0)->clear_contents();
  message_.add_raw_input_contents("1234");
  EXPECT_EQ(Error(Recurrent()),
            "model 'm' version 3: got 2 raw_input_contents, expected 1, one for each input");
}

TEST_F(DecodedFaultsTest, Echo) {
  AddInput(&message_, "input", "FLOAT", {2});
  message_.add_raw_input_contents("1234");
  message_.add_outputs()->set_name("y");
  EXPECT_EQ(Error(EchoSignature()),
            std::string("model 'm' version 3: input 'input': got datatype 'FLOAT', ") + kKnown +
                "; unknown output 'y', expected one of 'output'");
  message_.mutable_inputs(0)->set_datatype("FP32");
  message_.mutable_outputs(0)->set_name("output");
  message_.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_EQ(Error(EchoSignature()),
            "model 'm' version 3: input 'input': has typed contents while raw_input_contents is "
            "used, expected one of the two");
}

TEST_F(DecodedFaultsTest, TheMessageStaysBounded) {
  for (int i = 0; i < 128; ++i) AddInput(&message_, std::string(200, 'n'), "NONE", {-1});
  const std::string error = Error(Encoder());
  EXPECT_LT(error.size(), 4096u);
  EXPECT_THAT(error, HasSubstr(" more"));
}

TEST_F(DecodedFaultsTest, WithoutAModelTheDecodersFaultsAreToldWithTheReason) {
  const absl::Status why = absl::NotFoundError("there is no model 'm'");
  EXPECT_EQ(RefuseUnresolved(Decode(), why), why);
  AddInput(&message_, "x", "FP32", {1});
  EXPECT_EQ(RefuseUnresolved(Decode(), why),
            absl::InvalidArgumentError("model 'm': input 'x': has no data, expected "
                                       "raw_input_contents or contents; there is no model 'm'"));
  message_.clear_model_name();
  message_.clear_inputs();
  EXPECT_EQ(RefuseUnresolved(Decode(), absl::InvalidArgumentError("model name ''")),
            absl::InvalidArgumentError("model '': model_name is empty"));
}

class EchoTest : public ValidateTest {
 protected:
  const Signature echo_ = EchoSignature();
};

TEST_F(EchoTest, JoinsEqualTrailingShapes) {
  auto bind = [&](DataType dtype, Shape shape) {
    request_.inputs.clear();
    Add("input", dtype, std::move(shape));
    const auto binding = Run(echo_);
    EXPECT_TRUE(binding.ok()) << binding.status();
    return *binding;
  };
  const Binding a = bind(DataType::kFp32, {2, 3});
  EXPECT_EQ(a.rows, 2);
  EXPECT_TRUE(a.joinable);
  EXPECT_EQ(a.shape_key, bind(DataType::kFp32, {5, 3}).shape_key);
  EXPECT_NE(a.shape_key, bind(DataType::kFp32, {2, 4}).shape_key);
  EXPECT_NE(a.shape_key, bind(DataType::kInt32, {2, 3}).shape_key);
  EXPECT_NE(a.shape_key, bind(DataType::kFp32, {2, 3, 1}).shape_key);
  EXPECT_NE(bind(DataType::kFp32, {2}).shape_key, bind(DataType::kFp32, {2, 1}).shape_key);
}

TEST_F(EchoTest, BytesAndScalarsRideAlone) {
  Add("input", DataType::kBytes, {4}, 16);
  const auto bytes = Run(echo_);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_FALSE(bytes->joinable);
  EXPECT_EQ(bytes->rows, 1);
  request_.inputs.clear();
  Add("input", DataType::kFp32, {});
  const auto scalar = Run(echo_);
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_FALSE(scalar->joinable);
  EXPECT_EQ(scalar->rows, 1);
}

TEST_F(EchoTest, Faults) {
  EXPECT_EQ(Error(echo_),
            "model 'm' version 3: got inputs none, expected exactly one, 'input'");
  Add("x", DataType::kFp32, {1});
  EXPECT_EQ(Error(echo_), "model 'm' version 3: got inputs 'x', expected exactly one, 'input'");
  request_.inputs.clear();
  Add("input", DataType::kFp32, {int64_t{1} << 40, 0});
  EXPECT_EQ(Error(echo_),
            "model 'm' version 3: input 'input': got FP32 [1099511627776,0], expected at least "
            "one element");
  request_.inputs.clear();
  Add("input", DataType::kFp32, {2}, 7);
  Ask("y");
  EXPECT_EQ(Error(echo_),
            "model 'm' version 3: input 'input': got 7 bytes, expected 8 for FP32 [2]; unknown "
            "output 'y', expected one of 'output'");
}

}  // namespace
}  // namespace belfry::wire
