#include "server/cli/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace belfry::cli {
namespace {

using ::testing::HasSubstr;

std::string File(std::string header, const std::string& data, char version = 1) {
  std::string out("\x93NUMPY", 6);
  out += version;
  out += '\0';
  out += static_cast<char>(header.size() & 0xFF);
  out += static_cast<char>(header.size() >> 8);
  if (version > 1) out.append(2, '\0');
  return out + header + data;
}

std::string Header(const std::string& descr, const std::string& shape,
                   const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

std::vector<int64_t> Ints(const Tensor& tensor) {
  std::vector<int64_t> out;
  const auto elements = Elements(tensor);
  EXPECT_TRUE(elements.ok()) << elements.status();
  for (const Element& element : *elements) out.push_back(std::get<int64_t>(element));
  return out;
}

TEST(NpyTest, WritesWhatNumpyReads) {
  const Tensor tensor{
      .dtype = DataType::kInt16, .shape = {3}, .data = std::string("\1\0\2\0\3\0", 6)};
  const auto file = FormatNpy(tensor);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_THAT(*file, HasSubstr("{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }"));
  EXPECT_EQ((file->size() - 6) % 64, 0u) << "the data begins at a multiple of 64";
  EXPECT_EQ((*file)[file->size() - 7], '\n');
}

TEST(NpyTest, EveryDatatypeComesBack) {
  for (int i = 1; i < kDataTypeCount; ++i) {
    const auto dtype = static_cast<DataType>(i);
    if (dtype == DataType::kBytes || dtype == DataType::kBf16) continue;
    Tensor tensor{.dtype = dtype, .shape = {2, 1, 2}, .data = ""};
    for (int j = 0; j < 4; ++j) {
      const Element element = dtype == DataType::kBool ? Element(j % 2 == 0) : Element(int64_t{j});
      ASSERT_TRUE(AppendElement(element, dtype, &tensor.data).ok());
    }
    const auto back = ParseNpy(*FormatNpy(tensor));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->dtype, dtype);
    EXPECT_EQ(back->shape, tensor.shape);
    EXPECT_EQ(back->data, tensor.data);
  }
}

TEST(NpyTest, ReadsBothByteOrders) {
  const std::string little("\1\0\0\0\2\0\0\0", 8), big("\0\0\0\1\0\0\0\2", 8);
  EXPECT_EQ(Ints(*ParseNpy(File(Header("<i4", "(2,)"), little))), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(Ints(*ParseNpy(File(Header(">i4", "(2,)"), big))), (std::vector<int64_t>{1, 2}));
}

TEST(NpyTest, ReadsFortranOrder) {
  // [[0,1,2],[3,4,5]] by columns.
  const std::string data("\0\3\1\4\2\5", 6);
  const auto tensor = ParseNpy(File(Header("|i1", "(2, 3)", "True"), data));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(Ints(*tensor), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(NpyTest, ReadsScalarsAndEmptyTensorsAndLaterVersions) {
  EXPECT_EQ(Ints(*ParseNpy(File(Header("|i1", "()"), "\7"))), (std::vector<int64_t>{7}));
  EXPECT_EQ(ParseNpy(File(Header("<f4", "(0, 3)"), ""))->shape, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(Ints(*ParseNpy(File(Header("|i1", "(1,)"), "\7", 2))), (std::vector<int64_t>{7}));
}

TEST(NpyTest, StringsLoseTheirPadding) {
  const auto tensor = ParseNpy(File(Header("|S3", "(2,)"), std::string("abca\0\0", 6)));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->dtype, DataType::kBytes);
  EXPECT_EQ(*Elements(*tensor), (std::vector<Element>{std::string("abc"), std::string("a")}));
  EXPECT_EQ(ParseNpy(*FormatNpy(*tensor))->data, tensor->data);
}

TEST(NpyTest, WidensBf16) {
  Tensor tensor{.dtype = DataType::kBf16, .shape = {1}, .data = ""};
  ASSERT_TRUE(AppendElement(1.5, DataType::kBf16, &tensor.data).ok());
  const auto back = ParseNpy(*FormatNpy(tensor));
  EXPECT_EQ(back->dtype, DataType::kFp32);
  EXPECT_EQ(*Elements(*back), (std::vector<Element>{1.5}));
}

TEST(NpyTest, RefusesWhatItCannotKeep) {
  Tensor tensor{.dtype = DataType::kBytes, .shape = {1}, .data = ""};
  ASSERT_TRUE(AppendElement(std::string("a\0", 2), DataType::kBytes, &tensor.data).ok());
  EXPECT_THAT(std::string(FormatNpy(tensor).status().message()), HasSubstr("NUL"));
}

TEST(NpyTest, AnyInputGivesATensorOrAnError) {
  for (const std::string& file :
       {std::string(), std::string("\x93NUMPY"), std::string("PK\3\4 zip of an npz"),
        File("", ""), File("{}", ""), File(Header("<f4", "(2,)"), "1234567"),
        File(Header("<f4", "(2,)"), "123456789"), File(Header("<c8", "(1,)"), "12345678"),
        File(Header("|O", "(1,)"), "12345678"), File(Header("<f4", "(-1,)"), ""),
        File(Header("<f4", "(x,)"), ""), File(Header("<f4", "(1"), "1234"),
        File(Header("<f8", "(4611686018427387904, 8)"), ""), File(Header("|S0", "(1,)"), ""),
        File("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"),
        File(Header("<f4", "(1,)"), "1234", 9),
        File(Header("<f4", "(1,)"), "1234").substr(0, 30)}) {
    EXPECT_EQ(ParseNpy(file).status().code(), absl::StatusCode::kInvalidArgument) << file;
  }
  // No prefix of a good file may be read past its end.
  const std::string good = File(Header("<f4", "(1,)"), "1234");
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(ParseNpy(good.substr(0, n)).ok());
}

}  // namespace
}  // namespace belfry::cli
