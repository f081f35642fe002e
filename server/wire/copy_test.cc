#include "server/wire/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "server/wire/byte_order.h"
#include "server/wire/copy_order.h"
#include "server/wire/element.h"
#include "server/wire/test_messages.h"

namespace belfry::wire {
namespace {

using Random = std::mt19937_64;
using Dims = std::vector<int64_t>;

int64_t Below(Random& random, int64_t n) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
}

int64_t Product(const Dims& dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

int64_t Offset(const Dims& shape, const Dims& index) {
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

// Every index of a tensor of this shape, in row-major order.
template <typename Use>
void ForEachIndex(const Dims& shape, Use&& use) {
  if (Product(shape) == 0) return;
  Dims index(shape.size(), 0);
  for (;;) {
    use(index);
    int d = static_cast<int>(shape.size()) - 1;
    for (; d >= 0; --d) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

bool Inside(const Dims& index, const Box& box) {
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d] < box.origin[d] || index[d] >= box.origin[d] + box.extent[d]) return false;
  }
  return true;
}

// A box in a tensor, and a dense tensor that has its rows from 'first_row' on.
struct Case {
  Dims shape, origin, extent, dense;
  int axis = -1;
  int64_t first_row = 0;
  DataType dtype = DataType::kFp32;

  Box box() const { return {shape, origin, extent}; }
  size_t width() const { return DataTypeSize(dtype); }
  // Where the dense tensor has the element that lies at 'index' of the tensor.
  int64_t DenseOffset(const Dims& index) const {
    Dims at(index.size());
    for (size_t d = 0; d < index.size(); ++d) {
      at[d] = index[d] - origin[d] + (static_cast<int>(d) == axis ? first_row : 0);
    }
    return Offset(dense, at);
  }
};

Case RandomCase(Random& random) {
  static constexpr DataType kTypes[] = {DataType::kUint8, DataType::kFp16, DataType::kFp32,
                                        DataType::kInt64, DataType::kBool};
  Case c;
  c.dtype = kTypes[Below(random, std::size(kTypes))];
  const int rank = static_cast<int>(Below(random, 6));
  c.axis = rank == 0 ? -1 : static_cast<int>(Below(random, rank + 1)) - 1;
  for (int d = 0; d < rank; ++d) {
    const int64_t extent = Below(random, 12) == 0 ? 0 : 1 + Below(random, 5);
    // Mostly no padding, so that runs over several dimensions occur.
    const int64_t before = Below(random, 3) == 0 ? Below(random, 3) : 0;
    const int64_t behind = Below(random, 3) == 0 ? Below(random, 3) : 0;
    c.extent.push_back(extent);
    c.origin.push_back(before);
    c.shape.push_back(before + extent + behind);
    c.dense.push_back(extent);
    if (d == c.axis) {
      c.first_row = Below(random, 3);
      c.dense.back() = c.first_row + extent + Below(random, 3);
    }
  }
  return c;
}

std::string RandomBytes(Random& random, int64_t n, DataType dtype) {
  std::string out(static_cast<size_t>(n), '\0');
  for (char& c : out) c = static_cast<char>(dtype == DataType::kBool ? random() % 2 : random());
  return out;
}

Payload PayloadOf(const Pieces& pieces) {
  Payload payload;
  for (const Segment& s : pieces.segments()) {
    payload.segments.push_back(s);
    payload.size += s.size;
  }
  return payload;
}

std::vector<size_t> RandomCuts(Random& random, size_t size) {
  std::vector<size_t> cuts;
  for (int64_t n = Below(random, 5); n > 0; --n) cuts.push_back(random() % (size + 1));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

// The bytes of an element as a host of the given order has them.
template <std::endian kHost>
std::string HostElement(std::string wire) {
  if (kHost == std::endian::big) std::reverse(wire.begin(), wire.end());
  return wire;
}

template <std::endian kHost>
void CheckCopyIn(Random& random) {
  const Case c = RandomCase(random);
  const size_t w = c.width();
  const std::string wire = RandomBytes(random, Product(c.dense) * w, c.dtype);
  const Pieces pieces(wire, RandomCuts(random, wire.size()));
  std::string tensor = RandomBytes(random, Product(c.shape) * w, c.dtype);
  std::string expected = tensor;
  ForEachIndex(c.shape, [&](const Dims& index) {
    if (!Inside(index, c.box())) return;
    expected.replace(Offset(c.shape, index) * w, w,
                     HostElement<kHost>(wire.substr(c.DenseOffset(index) * w, w)));
  });
  order::CopyIn<kHost>(PayloadOf(pieces), c.dense, c.axis, c.first_row, c.dtype,
                       reinterpret_cast<uint8_t*>(tensor.data()), c.box());
  ASSERT_EQ(tensor, expected);
}

template <std::endian kHost>
void CheckCopyOut(Random& random) {
  const Case c = RandomCase(random);
  const size_t w = c.width();
  const std::string tensor = RandomBytes(random, Product(c.shape) * w, c.dtype);
  std::string out = RandomBytes(random, Product(c.dense) * w, c.dtype);
  std::string expected = out;
  ForEachIndex(c.shape, [&](const Dims& index) {
    if (!Inside(index, c.box())) return;
    expected.replace(c.DenseOffset(index) * w, w,
                     HostElement<kHost>(tensor.substr(Offset(c.shape, index) * w, w)));
  });
  order::CopyOut<kHost>(reinterpret_cast<const uint8_t*>(tensor.data()), c.box(), c.dtype,
                        reinterpret_cast<uint8_t*>(out.data()), c.dense, c.axis, c.first_row);
  ASSERT_EQ(out, expected);
}

TEST(CopyTest, CopyInAgreesWithNaiveLoop) {
  Random random(1);
  for (int i = 0; i < 20000 && !testing::Test::HasFatalFailure(); ++i) {
    CheckCopyIn<std::endian::little>(random);
    CheckCopyIn<std::endian::big>(random);
  }
}

TEST(CopyTest, CopyOutAgreesWithNaiveLoop) {
  Random random(2);
  for (int i = 0; i < 20000 && !testing::Test::HasFatalFailure(); ++i) {
    CheckCopyOut<std::endian::little>(random);
    CheckCopyOut<std::endian::big>(random);
  }
}

TEST(CopyTest, FillOutsideAgreesWithNaiveLoop) {
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    const Case c = RandomCase(random);
    const size_t w = c.width();
    const double value = static_cast<double>(Below(random, 300)) - 20;
    uint8_t element[8];
    ASSERT_EQ(StoreElement(value, c.dtype, element), w);
    std::string tensor = RandomBytes(random, Product(c.shape) * w, c.dtype);
    std::string expected = tensor;
    ForEachIndex(c.shape, [&](const Dims& index) {
      if (Inside(index, c.box())) return;
      expected.replace(Offset(c.shape, index) * w, w, reinterpret_cast<char*>(element), w);
    });
    FillOutside(reinterpret_cast<uint8_t*>(tensor.data()), c.dtype, c.box(), value);
    ASSERT_EQ(tensor, expected);
  }
}

TEST(CopyTest, RowsComeBackThroughABatch) {
  // Two requests joined along axis 1, and taken apart again.
  const Dims shape = {7, 5, 3}, a_shape = {7, 2, 3}, b_shape = {7, 3, 3};
  Random random(4);
  const std::string a = RandomBytes(random, 7 * 2 * 3 * 4, DataType::kFp32);
  const std::string b = RandomBytes(random, 7 * 3 * 3 * 4, DataType::kFp32);
  const Pieces a_pieces(a, {10, 11}), b_pieces(b);
  std::vector<uint8_t> arena(7 * 5 * 3 * 4);
  const Dims a_origin = {0, 0, 0}, b_origin = {0, 2, 0};
  const Box a_box{shape, a_origin, a_shape}, b_box{shape, b_origin, b_shape};
  CopyIn(PayloadOf(a_pieces), a_shape, 1, 0, DataType::kFp32, arena.data(), a_box);
  CopyIn(PayloadOf(b_pieces), b_shape, 1, 0, DataType::kFp32, arena.data(), b_box);
  std::string a_out(a.size(), '\0'), b_out(b.size(), '\0');
  CopyOut(arena.data(), a_box, DataType::kFp32, reinterpret_cast<uint8_t*>(a_out.data()), a_shape,
          1, 0);
  CopyOut(arena.data(), b_box, DataType::kFp32, reinterpret_cast<uint8_t*>(b_out.data()), b_shape,
          1, 0);
  EXPECT_EQ(a_out, a);
  EXPECT_EQ(b_out, b);
}

TEST(CopyTest, BoolsBecomeZeroOrOneBothWays) {
  const std::string wire("\x00\x01\x02\xff", 4);
  const Pieces pieces(wire, {2});
  const Dims shape = {4}, origin = {0};
  const Box box{shape, origin, shape};
  std::string tensor(4, 'x');
  auto* data = reinterpret_cast<uint8_t*>(tensor.data());
  CopyIn(PayloadOf(pieces), shape, 0, 0, DataType::kBool, data, box);
  EXPECT_EQ(tensor, std::string("\x00\x01\x01\x01", 4));
  tensor = wire;
  std::string out(4, 'x');
  CopyOut(data, box, DataType::kBool, reinterpret_cast<uint8_t*>(out.data()), shape, 0, 0);
  EXPECT_EQ(out, std::string("\x00\x01\x01\x01", 4));
}

TEST(CopyTest, ByteElementsInEitherOrder) {
  const std::string wire = Elements({"hello", "", std::string(300, 'z')});
  std::string big = wire;  // what a big-endian host has in its arena
  for (const size_t at : {0, 9, 13}) std::reverse(big.begin() + at, big.begin() + at + 4);
  for (size_t cut = 0; cut <= 20; ++cut) {
    const Pieces pieces(wire, {cut});
    std::string tensor(wire.size(), 'x');
    auto* data = reinterpret_cast<uint8_t*>(tensor.data());
    order::CopyInBytes<std::endian::little>(PayloadOf(pieces), data);
    EXPECT_EQ(tensor, wire);
    order::CopyInBytes<std::endian::big>(PayloadOf(pieces), data);
    EXPECT_EQ(tensor, big);
  }
  std::string out(wire.size(), 'x');
  auto* data = reinterpret_cast<uint8_t*>(out.data());
  EXPECT_TRUE(order::CopyOutBytes<std::endian::little>(
      reinterpret_cast<const uint8_t*>(wire.data()), wire.size(), 3, data));
  EXPECT_EQ(out, wire);
  EXPECT_TRUE(order::CopyOutBytes<std::endian::big>(reinterpret_cast<const uint8_t*>(big.data()),
                                                    big.size(), 3, data));
  EXPECT_EQ(out, wire);
}

TEST(CopyTest, BytesFromACardAreChecked) {
  auto copies = [](const std::string& bytes, int64_t elements) {
    // Exact sizes on the heap, so that a sanitizer sees every step beyond.
    const Pieces pieces(bytes);
    std::vector<uint8_t> out(bytes.size(), 'x');
    const bool ok =
        CopyOutBytes(pieces.segments()[0].data, bytes.size(), elements, out.data());
    // Never a byte of what was there before.
    if (!ok) {
      EXPECT_EQ(out, std::vector<uint8_t>(bytes.size(), 0));
    }
    return ok;
  };
  const std::string good = Elements({"ab", "c"});
  EXPECT_TRUE(copies(good, 2));
  EXPECT_TRUE(copies("", 0));
  EXPECT_FALSE(copies("", 1));
  EXPECT_FALSE(copies(good, 1));
  EXPECT_FALSE(copies(good, 3));
  for (size_t size = 1; size < good.size(); ++size) {
    EXPECT_FALSE(copies(good.substr(0, size), 2)) << size;
  }
  EXPECT_FALSE(copies(std::string(8, '\xff'), 1));
}

TEST(ElementTest, IntegersSaturate) {
  auto as = [](double value, DataType dtype, auto sample) {
    uint8_t bytes[8];
    EXPECT_EQ(StoreElement(value, dtype, bytes), sizeof(sample));
    decltype(sample) out;
    std::memcpy(&out, bytes, sizeof(out));
    return out;
  };
  EXPECT_EQ(as(300, DataType::kUint8, uint8_t{}), 255);
  EXPECT_EQ(as(-1, DataType::kUint8, uint8_t{}), 0);
  EXPECT_EQ(as(-1e9, DataType::kInt16, int16_t{}), -32768);
  EXPECT_EQ(as(1e300, DataType::kInt64, int64_t{}), INT64_MAX);
  EXPECT_EQ(as(-1e300, DataType::kInt64, int64_t{}), INT64_MIN);
  EXPECT_EQ(as(1e300, DataType::kUint64, uint64_t{}), UINT64_MAX);
  EXPECT_EQ(as(NAN, DataType::kInt32, int32_t{}), 0);
  EXPECT_EQ(as(-2.9, DataType::kInt32, int32_t{}), -2);
  EXPECT_EQ(as(0.5, DataType::kBool, uint8_t{}), 1);
  EXPECT_EQ(as(1e300, DataType::kFp32, float{}), std::numeric_limits<float>::max());
  EXPECT_EQ(as(-INFINITY, DataType::kFp32, float{}), -INFINITY);
  uint8_t unused[8];
  EXPECT_EQ(StoreElement(1, DataType::kBytes, unused), 0u);
}

TEST(ElementTest, HalfRoundTripsEveryValue) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(HalfFromDouble(value))));
    } else {
      ASSERT_EQ(HalfFromDouble(value), bits) << value;
    }
  }
}

TEST(ElementTest, Bfloat16RoundTripsEveryValue) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const float value = Bfloat16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Bfloat16ToFloat(Bfloat16FromDouble(value))));
    } else {
      ASSERT_EQ(Bfloat16FromDouble(value), bits) << value;
    }
  }
}

TEST(ElementTest, HalfRoundsToNearestEvenOnce) {
  EXPECT_EQ(HalfFromDouble(1.0), 0x3c00);
  EXPECT_EQ(HalfFromDouble(-2.0), 0xc000);
  EXPECT_EQ(HalfFromDouble(65504), 0x7bff);
  EXPECT_EQ(HalfFromDouble(1e6), 0x7bff);   // saturates
  EXPECT_EQ(HalfFromDouble(-1e6), 0xfbff);
  EXPECT_EQ(HalfFromDouble(INFINITY), 0x7c00);
  EXPECT_EQ(HalfFromDouble(1 + std::ldexp(1, -11)), 0x3c00);               // tie, to even
  EXPECT_EQ(HalfFromDouble(1 + 3 * std::ldexp(1, -11)), 0x3c02);           // tie, to even
  EXPECT_EQ(HalfFromDouble(1 + std::ldexp(1, -11) + std::ldexp(1, -40)), 0x3c01);
  EXPECT_EQ(HalfFromDouble(std::ldexp(1, -24)), 0x0001);
  EXPECT_EQ(HalfFromDouble(std::ldexp(1, -26)), 0x0000);
  EXPECT_EQ(HalfFromDouble(-0.0), 0x8000);
}

}  // namespace
}  // namespace belfry::wire
