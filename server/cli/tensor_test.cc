#include "server/cli/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace belfry::cli {
namespace {

using ::testing::HasSubstr;

TEST(TensorTest, IsLittleEndian) {
  std::string data;
  ASSERT_TRUE(AppendElement(int64_t{0x0102}, DataType::kInt32, &data).ok());
  EXPECT_EQ(data, std::string("\x02\x01\x00\x00", 4));
  data.clear();
  ASSERT_TRUE(AppendElement(std::string("ab"), DataType::kBytes, &data).ok());
  EXPECT_EQ(data, std::string("\x02\x00\x00\x00"
                              "ab",
                              6));
}

TEST(TensorTest, IntegersMustFit) {
  std::string data;
  EXPECT_TRUE(AppendElement(int64_t{-128}, DataType::kInt8, &data).ok());
  EXPECT_THAT(AppendElement(int64_t{128}, DataType::kInt8, &data).message(),
              HasSubstr("128 is no INT8"));
  EXPECT_FALSE(AppendElement(int64_t{-1}, DataType::kUint64, &data).ok());
  EXPECT_TRUE(AppendElement(uint64_t{UINT64_MAX}, DataType::kUint64, &data).ok());
  EXPECT_FALSE(AppendElement(uint64_t{UINT64_MAX}, DataType::kInt64, &data).ok());
  EXPECT_FALSE(AppendElement(1.0, DataType::kInt64, &data).ok());
}

TEST(TensorTest, KindsDoNotMix) {
  std::string data;
  EXPECT_FALSE(AppendElement(true, DataType::kInt64, &data).ok());
  EXPECT_FALSE(AppendElement(int64_t{1}, DataType::kBool, &data).ok());
  EXPECT_FALSE(AppendElement(int64_t{1}, DataType::kBytes, &data).ok());
  EXPECT_FALSE(AppendElement(std::string("1"), DataType::kFp32, &data).ok());
  EXPECT_FALSE(AppendElement(1.0, DataType::kInvalid, &data).ok());
  EXPECT_TRUE(data.empty());
}

TEST(TensorTest, ConvertsEveryNumber) {
  Tensor tensor{.dtype = DataType::kFp64, .shape = {2}, .data = ""};
  ASSERT_TRUE(AppendElement(0.5, DataType::kFp64, &tensor.data).ok());
  ASSERT_TRUE(AppendElement(-2.0, DataType::kFp64, &tensor.data).ok());
  for (DataType dtype : {DataType::kFp16, DataType::kBf16, DataType::kFp32}) {
    const auto converted = Convert(tensor, dtype);
    ASSERT_TRUE(converted.ok());
    EXPECT_EQ(converted->data.size(), 2 * DataTypeSize(dtype));
    EXPECT_EQ(*Elements(*converted), *Elements(tensor));
  }
  EXPECT_FALSE(Convert(tensor, DataType::kInt32).ok());
}

TEST(TensorTest, NoticesDataThatDoesNotFit) {
  EXPECT_FALSE(Elements({.dtype = DataType::kFp32, .shape = {2}, .data = "1234"}).ok());
  EXPECT_FALSE(Elements({.dtype = DataType::kFp32, .shape = {-1}, .data = ""}).ok());
  const std::string cut("\5\0\0\0ab", 6), whole("\1\0\0\0a", 5);
  EXPECT_FALSE(Elements({.dtype = DataType::kBytes, .shape = {1}, .data = cut}).ok());
  EXPECT_TRUE(Elements({.dtype = DataType::kBytes, .shape = {1}, .data = whole}).ok());
  EXPECT_FALSE(Elements({.dtype = DataType::kBytes, .shape = {2}, .data = whole}).ok());
  EXPECT_FALSE(
      Elements({.dtype = DataType::kFp64, .shape = {1ll << 62, 8}, .data = ""}).ok());
}

}  // namespace
}  // namespace belfry::cli
