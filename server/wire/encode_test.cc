#include "server/wire/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "server/wire/element.h"
#include "server/wire/test_messages.h"

namespace belfry::wire {
namespace {

using inference::ModelInferResponse;
using inference::ModelStreamInferResponse;

ResponseTensor Tensor(std::string_view name, DataType dtype, Shape shape,
                      const std::string& bytes) {
  ResponseTensor t{.name = name, .dtype = dtype, .shape = std::move(shape),
                   .data = OutputBuffer(bytes.size())};
  if (!bytes.empty()) std::memcpy(t.data.data(), bytes.data(), bytes.size());
  return t;
}

TEST(EncodeTest, SameBytesAsProtobuf) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    ModelInferResponse expected;
    expected.set_model_name(std::string(random() % 300, 'm'));
    expected.set_model_version(std::string(random() % 3, '1'));
    if (random() % 2) expected.set_id(std::string(random() % 200, 'i'));
    std::vector<std::string> names(random() % 4);
    std::vector<ResponseTensor> tensors;
    for (std::string& name : names) {
      name = std::string(1 + random() % 150, 'n');
      auto* t = expected.add_outputs();
      t->set_name(name);
      t->set_datatype("UINT8");
      Shape shape;
      for (int d = static_cast<int>(random() % 4); d > 0; --d) {
        shape.push_back(static_cast<int64_t>(random() >> (1 + random() % 62)));
        t->add_shape(shape.back());
      }
      // Around the size from which payloads travel in slices of their own.
      const std::string bytes(random() % 3 == 0 ? random() % 8 : random() % 1500,
                              static_cast<char>(random()));
      expected.add_raw_output_contents(bytes);
      tensors.push_back(Tensor(name, DataType::kUint8, shape, bytes));
    }
    std::vector<ResponseTensor> again;
    for (size_t t = 0; t < tensors.size(); ++t) {
      again.push_back(Tensor(names[t], DataType::kUint8, tensors[t].shape,
                             expected.raw_output_contents(static_cast<int>(t))));
    }
    const std::string bytes = BytesOf(EncodeInferResponse(
        expected.model_name(), expected.model_version(), expected.id(), std::move(tensors)));
    ASSERT_EQ(bytes, expected.SerializeAsString());

    ModelStreamInferResponse stream;
    *stream.mutable_infer_response() = expected;
    ASSERT_EQ(BytesOf(EncodeStreamResponse(expected.model_name(), expected.model_version(),
                                           expected.id(), std::move(again))),
              stream.SerializeAsString());
  }
}

TEST(EncodeTest, LargePayloadIsNotCopied) {
  ResponseTensor t = Tensor("y", DataType::kUint8, {100000}, std::string(100000, 'y'));
  const uint8_t* const data = t.data.data();
  std::vector<ResponseTensor> tensors;
  tensors.push_back(std::move(t));
  const grpc::ByteBuffer buffer = EncodeInferResponse("m", "1", "", std::move(tensors));
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(buffer.Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1].begin(), data);
}

TEST(EncodeTest, OutputBufferStaysInPlaceWhenMoved) {
  OutputBuffer a(5);
  uint8_t* const data = a.data();
  OutputBuffer b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b.size(), 5u);
  EXPECT_EQ(a.size(), 0u);  // NOLINT(bugprone-use-after-move): it is empty now
  OutputBuffer c(7);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  std::memcpy(c.data(), "hello", 5);
  const grpc::Slice slice = c.Release();
  EXPECT_EQ(c.size(), 0u);
  EXPECT_EQ(std::string(slice.begin(), slice.end()), "hello");
  EXPECT_EQ(OutputBuffer(0).Release().size(), 0u);
}

TEST(EncodeTest, StreamError) {
  const auto encode = [](const absl::Status& status) {
    ModelStreamInferResponse r;
    EXPECT_TRUE(r.ParseFromString(BytesOf(EncodeStreamError("m", "2", "id-7", status))));
    EXPECT_EQ(r.infer_response().model_name(), "m");
    EXPECT_EQ(r.infer_response().model_version(), "2");
    EXPECT_EQ(r.infer_response().id(), "id-7");
    EXPECT_EQ(r.infer_response().outputs_size(), 0);
    return r.error_message();
  };
  EXPECT_EQ(encode(absl::NotFoundError("no model 'm'")), "NOT_FOUND: no model 'm'");
  // A message that is not UTF-8 would make the whole answer unreadable.
  EXPECT_EQ(encode(absl::InternalError("bad \xff")), "INTERNAL: bad \\xff");
}

// ------------------------------------------------------------ classification

std::vector<std::string> ElementsOf(ResponseTensor& t) {
  std::vector<std::string> out;
  for (size_t at = 0; at < t.data.size();) {
    uint32_t size = 0;
    for (int i = 0; i < 4; ++i) size |= static_cast<uint32_t>(t.data.data()[at + i]) << (8 * i);
    out.emplace_back(reinterpret_cast<char*>(t.data.data()) + at + 4, size);
    at += 4 + size;
  }
  return out;
}

std::vector<std::string> TopK(ResponseTensor tensor, uint32_t k,
                              const std::vector<std::string>& labels = {},
                              Shape* shape = nullptr) {
  absl::StatusOr<ResponseTensor> result = Classify(std::move(tensor), k, labels);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  EXPECT_EQ(result->dtype, DataType::kBytes);
  if (shape != nullptr) *shape = result->shape;
  return ElementsOf(*result);
}

using Strings = std::vector<std::string>;

TEST(ClassifyTest, TopKOfEachRow) {
  Shape shape;
  EXPECT_EQ(TopK(Tensor("y", DataType::kFp32, {2, 3},
                        RawOf<float>({0.25f, 0.5f, 0.125f, 3, 1, 2})),
                 2, {"cat", "dog"}, &shape),
            (Strings{"0.5:1:dog", "0.25:0:cat", "3:0:cat", "2:2"}));
  EXPECT_EQ(shape, (Shape{2, 2}));
}

TEST(ClassifyTest, TiesByIndexAndNanLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(TopK(Tensor("y", DataType::kFp32, {6},
                        RawOf<float>({nan, 1, -INFINITY, 1, nan, INFINITY})),
                 6),
            (Strings{"inf:5", "1:1", "1:3", "-inf:2", "nan:0", "nan:4"}));
}

TEST(ClassifyTest, MoreThanThereAreGivesAll) {
  Shape shape;
  EXPECT_EQ(TopK(Tensor("y", DataType::kInt8, {2}, RawOf<int8_t>({-5, 4})), UINT32_MAX, {}, &shape),
            (Strings{"4:1", "-5:0"}));
  EXPECT_EQ(shape, (Shape{2}));
}

TEST(ClassifyTest, EveryTypeOfNumber) {
  EXPECT_EQ(TopK(Tensor("y", DataType::kBool, {2}, std::string("\0\1", 2)), 1), (Strings{"1:1"}));
  EXPECT_EQ(TopK(Tensor("y", DataType::kUint64, {2}, RawOf<uint64_t>({1, UINT64_MAX})), 1),
            (Strings{"18446744073709551615:1"}));
  // Two that are the same number as double.
  EXPECT_EQ(TopK(Tensor("y", DataType::kInt64, {2}, RawOf<int64_t>({INT64_MAX - 1, INT64_MAX})), 1),
            (Strings{"9223372036854775807:1"}));
  EXPECT_EQ(TopK(Tensor("y", DataType::kFp16, {2},
                        RawOf<uint16_t>({HalfFromDouble(0.5), HalfFromDouble(-1)})),
                 1),
            (Strings{"0.5:0"}));
  EXPECT_EQ(TopK(Tensor("y", DataType::kBf16, {1}, RawOf<uint16_t>({Bfloat16FromDouble(2)})), 1),
            (Strings{"2:0"}));
  EXPECT_EQ(TopK(Tensor("y", DataType::kFp64, {1}, RawOf<double>({0.1})), 1), (Strings{"0.1:0"}));
}

TEST(ClassifyTest, EdgesAndRefusals) {
  Shape shape;
  EXPECT_TRUE(TopK(Tensor("y", DataType::kFp32, {0, 3}, ""), 2, {}, &shape).empty());
  EXPECT_EQ(shape, (Shape{0, 2}));
  EXPECT_TRUE(TopK(Tensor("y", DataType::kFp32, {2, 0}, ""), 2, {}, &shape).empty());
  EXPECT_EQ(shape, (Shape{2, 0}));
  // 0: not asked for.
  EXPECT_EQ(Classify(Tensor("y", DataType::kFp32, {1}, RawOf<float>({1})), 0, {})->dtype,
            DataType::kFp32);
  EXPECT_EQ(Classify(Tensor("y", DataType::kBytes, {1}, Elements({"a"})), 1, {}).status().message(),
            "output 'y': classification of a BYTES tensor of rank 1, expected numbers and a rank "
            "of at least 1");
  EXPECT_EQ(Classify(Tensor("y", DataType::kFp32, {}, RawOf<float>({1})), 1, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Classify(Tensor("y", DataType::kFp32, {2}, RawOf<float>({1})), 1, {}).status().code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace belfry::wire
