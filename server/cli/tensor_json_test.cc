#include "server/cli/tensor_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace belfry::cli {
namespace {

using ::testing::HasSubstr;

TEST(TensorJsonTest, TakesTheShapeFromTheNesting) {
  const auto tensor = TensorFromJson("[[1,2,3],[4,5,6]]", DataType::kInt64);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(TensorToJson(*tensor)->dump(), "[[1,2,3],[4,5,6]]");
  EXPECT_TRUE(TensorFromJson("5", DataType::kInt64)->shape.empty());
  EXPECT_EQ(TensorFromJson("[[],[]]", DataType::kInt64)->shape, (std::vector<int64_t>{2, 0}));
}

TEST(TensorJsonTest, GuessesTheDatatypeWhereNoneIsKnown) {
  EXPECT_EQ(TensorFromJson("[1]", DataType::kInvalid)->dtype, DataType::kInt64);
  EXPECT_EQ(TensorFromJson("[1.5]", DataType::kInvalid)->dtype, DataType::kFp32);
  EXPECT_EQ(TensorFromJson("[true]", DataType::kInvalid)->dtype, DataType::kBool);
  EXPECT_EQ(TensorFromJson("[\"a\"]", DataType::kInvalid)->dtype, DataType::kBytes);
}

TEST(TensorJsonTest, KeepsWhatJsonHasNoWordFor) {
  const std::string floats = R"(["NaN","Infinity","-Infinity",0.5])";
  EXPECT_EQ(TensorToJson(*TensorFromJson(floats, DataType::kFp32))->dump(), floats);
  const std::string bytes = R"([{"base64":"/wA="},"text","NaN"])";
  const auto tensor = TensorFromJson(bytes, DataType::kBytes);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(std::get<std::string>((*Elements(*tensor))[0]), std::string("\xff\0", 2));
  EXPECT_EQ(TensorToJson(*tensor)->dump(), bytes);
  const std::string big = "[18446744073709551615]";
  EXPECT_EQ(TensorToJson(*TensorFromJson(big, DataType::kUint64))->dump(), big);
}

TEST(TensorJsonTest, TellsWhatIsWrong) {
  const auto fault = [](const char* text, DataType dtype) {
    return std::string(TensorFromJson(text, dtype).status().message());
  };
  EXPECT_THAT(fault("[[1,2],[3]]", DataType::kInt64),
              HasSubstr("expected 2 elements at depth 1, got 1"));
  EXPECT_THAT(fault("[[1],2]", DataType::kInt64), HasSubstr("got no list"));
  EXPECT_THAT(fault("[1,[2]]", DataType::kInt64), HasSubstr("[2] is no INT64"));
  EXPECT_THAT(fault("[300]", DataType::kUint8), HasSubstr("300 is no UINT8"));
  EXPECT_THAT(fault("[null]", DataType::kFp32), HasSubstr("null is no FP32"));
  EXPECT_THAT(fault("[\"x\"]", DataType::kFp32), HasSubstr("is no FP32"));
  EXPECT_THAT(fault("[1,", DataType::kFp32), HasSubstr("not JSON"));
  EXPECT_THAT(fault("[[[[[[[[[[[[[1]]]]]]]]]]]]]", DataType::kFp32), HasSubstr("too deeply"));
}

TEST(TensorJsonTest, ShowsRowsAndCutsLongOnes) {
  EXPECT_EQ(*TensorToText(*TensorFromJson("[[1,2],[3,4]]", DataType::kFp32)), "[[1, 2],\n [3, 4]]");
  EXPECT_EQ(*TensorToText(*TensorFromJson("[\"a\\n\"]", DataType::kBytes)), "[\"a\\n\"]");
  std::string numbers = "0";
  for (int i = 1; i < 20; ++i) numbers += "," + std::to_string(i);
  EXPECT_EQ(*TensorToText(*TensorFromJson("[" + numbers + "]", DataType::kInt32)),
            "[0, 1, 2, 3, ..., 16, 17, 18, 19]");
  EXPECT_EQ(*TensorToText(*TensorFromJson("7", DataType::kInt32)), "7");
  EXPECT_EQ(*TensorToText(*TensorFromJson("[]", DataType::kInt32)), "[]");
}

}  // namespace
}  // namespace belfry::cli
