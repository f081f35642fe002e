#include "device/channel/check.h"

#include <functional>
#include <string>

#include "device/channel/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belfry::channel {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kArena = 1 << 20;

TensorDesc Tensor(DataType dtype, std::vector<int64_t> dims, uint64_t offset, uint64_t bytes) {
  TensorDesc t{};
  t.dtype = static_cast<uint8_t>(dtype);
  t.rank = static_cast<uint8_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) t.dims[i] = dims[i];
  t.offset = offset;
  t.bytes = bytes;
  return t;
}

TEST(CheckTest, TakesEveryDtypeAndShape) {
  for (int d = 1; d < kDataTypeCount; ++d) {
    const auto dtype = static_cast<DataType>(d);
    const uint64_t item = dtype == DataType::kBytes ? 5 : DataTypeSize(dtype);
    const std::vector<TensorDesc> tensors = {
        Tensor(dtype, {2, 3}, 64, 6 * item), Tensor(dtype, {}, 0, item),
        Tensor(dtype, std::vector<int64_t>(kMaxRank, 1), 4096, item),
        Tensor(dtype, {7, 0}, 64, 0)};
    EXPECT_TRUE(CheckTensors(tensors, kArena).ok()) << DataTypeName(dtype);
  }
}

TEST(CheckTest, TakesATensorThatFillsTheArenaAndEmptyOnesAtItsEnd) {
  EXPECT_TRUE(CheckTensors({{Tensor(DataType::kUint8, {kArena}, 0, kArena),
                             Tensor(DataType::kFp64, {0}, kArena, 0),
                             Tensor(DataType::kFp64, {0}, kArena, 0)}},
                           kArena)
                  .ok());
}

TEST(CheckTest, TakesNeighbours) {
  EXPECT_TRUE(CheckTensors({{Tensor(DataType::kUint8, {64}, 64, 64),
                             Tensor(DataType::kUint8, {64}, 0, 64),
                             Tensor(DataType::kUint8, {64}, 128, 64)}},
                           kArena)
                  .ok());
}

struct Fault {
  const char* name;
  std::function<void(TensorDesc&)> make;
  const char* message;
};

class CheckFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(CheckFaultTest, IsNamed) {
  std::vector<TensorDesc> tensors = {Tensor(DataType::kFp32, {4}, 0, 16),
                                     Tensor(DataType::kFp32, {2, 8}, 64, 64)};
  GetParam().make(tensors[1]);
  const absl::Status status = CheckTensors(tensors, kArena);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 1: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));

  std::vector<TensorDesc> out;
  EXPECT_EQ(CopyChecked(tensors.data(), 2, kArena, &out), status);
  EXPECT_TRUE(out.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, CheckFaultTest,
    ::testing::Values(
        Fault{"DtypeZero", [](TensorDesc& t) { t.dtype = 0; }, "dtype 0"},
        Fault{"DtypeUnknown", [](TensorDesc& t) { t.dtype = 15; }, "dtype 15"},
        Fault{"DtypeMax", [](TensorDesc& t) { t.dtype = 255; }, "dtype 255"},
        Fault{"Rank", [](TensorDesc& t) { t.rank = kMaxRank + 1; }, "rank 13"},
        Fault{"RankMax", [](TensorDesc& t) { t.rank = 255; }, "rank 255"},
        Fault{"Negative", [](TensorDesc& t) { t.dims[0] = -2; }, "[-2, 8]"},
        Fault{"BothNegative",
              [](TensorDesc& t) {
                t.dims[0] = -2;
                t.dims[1] = -8;
              },
              "no negative"},
        Fault{"Overflow",
              [](TensorDesc& t) {
                t.dims[0] = int64_t{1} << 33;
                t.dims[1] = int64_t{1} << 33;
              },
              "overflows"},
        Fault{"OverflowByItemSize", [](TensorDesc& t) { t.dims[0] = int64_t{1} << 59; },
              "overflows"},
        Fault{"OverflowBehindZero",
              [](TensorDesc& t) {
                t.rank = 3;
                t.dims[0] = 0;
                t.dims[1] = t.dims[2] = int64_t{1} << 40;
                t.bytes = 0;
              },
              "overflows"},
        Fault{"TooFewBytes", [](TensorDesc& t) { t.bytes = 60; }, "expected 64 for FP32 [2, 8]"},
        Fault{"TooManyBytes", [](TensorDesc& t) { t.bytes = 128; }, "expected 64"},
        Fault{"Misaligned", [](TensorDesc& t) { t.offset = 65; }, "multiple of 64"},
        Fault{"BeyondEnd", [](TensorDesc& t) { t.offset = kArena; }, "within an arena"},
        Fault{"RangeWraps", [](TensorDesc& t) { t.offset = UINT64_MAX - 63; }, "within an arena"},
        Fault{"BytesTooLong",
              [](TensorDesc& t) {
                t.dtype = static_cast<uint8_t>(DataType::kBytes);
                t.bytes = UINT64_MAX;
              },
              "within an arena"},
        Fault{"SameRange", [](TensorDesc& t) { t.offset = 0; }, "overlaps tensor 0"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CheckTest, FindsAnOverlapThatIsNotBetweenNeighboursInTheList) {
  const auto status = CheckTensors({{Tensor(DataType::kUint8, {256}, 0, 256),
                                     Tensor(DataType::kUint8, {64}, 1024, 64),
                                     Tensor(DataType::kUint8, {64}, 192, 64)}},
                                   kArena);
  EXPECT_THAT(std::string(status.message()), HasSubstr("overlaps"));
}

TEST(CheckTest, RefusesTooManyTensorsWithoutReadingThem) {
  std::vector<TensorDesc> out;
  EXPECT_EQ(CopyChecked(nullptr, kMaxTensors + 1, kArena, &out).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CopyChecked(nullptr, UINT32_MAX, kArena, &out).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CheckTest, CopiesAndClearsWhatIsBeyondTheRank) {
  TensorDesc t = Tensor(DataType::kInt64, {5}, 0, 40);
  t.dims[7] = -1;
  std::vector<TensorDesc> out;
  out.reserve(kMaxTensors);
  const TensorDesc* before = out.data();
  ASSERT_TRUE(CopyChecked(&t, 1, kArena, &out).ok());
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].dims[0], 5);
  EXPECT_EQ(out[0].dims[7], 0);
  EXPECT_EQ(out.data(), before);
}

}  // namespace
}  // namespace belfry::channel
