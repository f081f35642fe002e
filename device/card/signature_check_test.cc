#include "device/card/signature_check.h"

#include "device/card/warm_inputs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::card {
namespace {

using ::testing::HasSubstr;

Dim Fixed(int64_t size) { return {.kind = Dim::Kind::kFixed, .size = size, .text = ""}; }
Dim Symbol(const char* name) { return {.kind = Dim::Kind::kSymbol, .size = 0, .text = name}; }
Dim Expression(const char* text) {
  return {.kind = Dim::Kind::kExpression, .size = 0, .text = text};
}

Signature MakeSignature() {
  Signature s;
  s.inputs.push_back({.name = "x", .dtype = DataType::kFp32, .dims = {Symbol("batch"), Fixed(3)}});
  s.inputs.push_back({.name = "ids", .dtype = DataType::kInt64,
                      .dims = {Symbol("seq"), Symbol("batch")}});
  s.inputs.push_back({.name = "mask", .dtype = DataType::kBool, .dims = {Expression("2*seq + 1")}});
  s.symbols = {{"batch", {1, 64}}, {"seq", {2, 512}}};
  return s;
}

channel::TensorDesc Desc(DataType dtype, std::vector<int64_t> dims) {
  channel::TensorDesc d = {};
  d.dtype = static_cast<uint8_t>(dtype);
  d.rank = static_cast<uint8_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) d.dims[i] = dims[i];
  return d;
}

std::vector<channel::TensorDesc> Good() {
  return {Desc(DataType::kFp32, {4, 3}), Desc(DataType::kInt64, {5, 4}),
          Desc(DataType::kBool, {11})};
}

TEST(SignatureCheckTest, TakesWhatTheModelWasMadeFor) {
  const SignatureCheck check(MakeSignature());
  EXPECT_TRUE(check.Check(Good()).ok()) << check.Check(Good());
}

TEST(SignatureCheckTest, NamesWhatDoesNotFit) {
  const SignatureCheck check(MakeSignature());
  auto expect = [&](size_t i, channel::TensorDesc bad, const char* text) {
    auto inputs = Good();
    inputs[i] = bad;
    const auto status = check.Check(inputs);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  expect(0, Desc(DataType::kFp64, {4, 3}), "'x': FP64 of rank 2, expected FP32 of rank 2");
  expect(0, Desc(DataType::kFp32, {4}), "rank 1, expected FP32 of rank 2");
  expect(0, Desc(DataType::kFp32, {4, 4}), "size 4 on axis 1, expected 3");
  expect(0, Desc(DataType::kFp32, {0, 3}), "size 0 on axis 0, expected batch from 1 to 64");
  expect(0, Desc(DataType::kFp32, {65, 3}), "size 65 on axis 0");
  expect(1, Desc(DataType::kInt64, {5, 5}), "'ids': size 5 on axis 1, expected batch = 4");
  expect(1, Desc(DataType::kInt64, {1, 4}), "'ids': size 1 on axis 0");
  expect(2, Desc(DataType::kBool, {10}), "'mask': size 10 on axis 0, expected 2*seq + 1 = 11");
  EXPECT_THAT(std::string(check.Check(std::vector<channel::TensorDesc>(2)).message()),
              HasSubstr("2 inputs, expected 3"));
}

TEST(WarmInputsTest, AreZerosOfTheRightShapes) {
  const auto inputs = WarmInputs::Make(MakeSignature(), {{"batch", 4}, {"seq", 5}});
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  ASSERT_EQ(inputs->tensors().size(), 3u);
  std::vector<channel::TensorDesc> descs;
  for (const belfry_tensor& t : inputs->tensors()) {
    descs.push_back(Desc(static_cast<DataType>(t.dtype),
                         std::vector<int64_t>(t.dims, t.dims + t.rank)));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data) % channel::kTensorAlign, 0u);
    for (uint64_t i = 0; i < t.bytes; ++i) ASSERT_EQ(static_cast<uint8_t*>(t.data)[i], 0);
  }
  EXPECT_EQ(inputs->tensors()[0].bytes, 48u);
  EXPECT_TRUE(SignatureCheck(MakeSignature()).Check(descs).ok());
}

TEST(WarmInputsTest, RefusesShapesThatTheModelDoesNotHave) {
  EXPECT_FALSE(WarmInputs::Make(MakeSignature(), {{"batch", 4}}).ok());
  EXPECT_FALSE(WarmInputs::Make(MakeSignature(), {{"batch", 65}, {"seq", 5}}).ok());
  Signature s = MakeSignature();
  s.symbols["batch"].max = INT64_MAX;
  EXPECT_FALSE(WarmInputs::Make(s, {{"batch", INT64_MAX}, {"seq", 5}}).ok());
  EXPECT_FALSE(WarmInputs::Make(s, {{"batch", int64_t{1} << 50}, {"seq", 5}}).ok());
}

}  // namespace
}  // namespace belfry::card
