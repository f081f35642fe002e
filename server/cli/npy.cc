#include "server/cli/npy.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "device/channel/text.h"
#include "server/base/checked.h"

namespace belfry::cli {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kAlignment = 64;

struct Kind {
  std::string_view code;  // without byte order
  DataType dtype;
};
constexpr std::array<Kind, 12> kKinds = {{{"b1", DataType::kBool},
                                          {"u1", DataType::kUint8},
                                          {"u2", DataType::kUint16},
                                          {"u4", DataType::kUint32},
                                          {"u8", DataType::kUint64},
                                          {"i1", DataType::kInt8},
                                          {"i2", DataType::kInt16},
                                          {"i4", DataType::kInt32},
                                          {"i8", DataType::kInt64},
                                          {"f2", DataType::kFp16},
                                          {"f4", DataType::kFp32},
                                          {"f8", DataType::kFp64}}};

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
  std::string_view data;
};

absl::Status Bad(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("not a .npy file we can read: ", AbslView(what)));
}

// What stands behind "'key':" in the header's dictionary, up to the end.
std::optional<std::string_view> ValueOf(std::string_view dict, std::string_view key) {
  const std::string quoted = absl::StrCat("'", AbslView(key), "'");
  size_t at = dict.find(quoted);
  if (at == std::string_view::npos) return std::nullopt;
  at = dict.find(':', at + quoted.size());
  if (at == std::string_view::npos) return std::nullopt;
  at = dict.find_first_not_of(' ', at + 1);
  if (at == std::string_view::npos) return std::nullopt;
  return dict.substr(at);
}

absl::StatusOr<std::vector<int64_t>> ParseShape(std::string_view text) {
  const size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos) return Bad("no shape");
  std::vector<int64_t> shape;
  for (absl::string_view part : absl::StrSplit(AbslView(text.substr(1, end - 1)), ',')) {
    part = absl::StripAsciiWhitespace(part);
    if (part.empty()) continue;
    int64_t dim = 0;
    if (!absl::SimpleAtoi(part, &dim) || dim < 0) return Bad("a dimension is no number");
    shape.push_back(dim);
  }
  return shape;
}

absl::Status ParseDict(std::string_view dict, Header* header) {
  const auto descr = ValueOf(dict, "descr");
  const auto order = ValueOf(dict, "fortran_order");
  const auto shape = ValueOf(dict, "shape");
  if (!descr || !order || !shape) return Bad("descr, fortran_order or shape is missing");
  if (!descr->starts_with('\'')) return Bad("it holds records, expected plain numbers");
  header->descr = std::string(descr->substr(1, descr->substr(1).find('\'')));
  header->fortran = order->starts_with("True");
  auto dims = ParseShape(*shape);
  if (!dims.ok()) return dims.status();
  header->shape = *std::move(dims);
  return absl::OkStatus();
}

absl::StatusOr<Header> ParseHeader(std::string_view file) {
  if (!file.starts_with(kMagic) || file.size() < 10) return Bad("it does not begin like one");
  const int version = file[6];
  const size_t width = version == 1 ? 2 : 4;
  if (version < 1 || version > 3 || file.size() < 8 + width) return Bad("unknown version");
  size_t length = 0;
  for (size_t i = 0; i < width; ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(file[8 + i])) << (8 * i);
  }
  if (file.size() - 8 - width < length) return Bad("the header is cut off");
  Header header;
  if (auto status = ParseDict(file.substr(8 + width, length), &header); !status.ok()) return status;
  header.data = file.substr(8 + width + length);
  return header;
}

// Element i of C order lies at this place of Fortran order.
size_t FortranIndex(size_t i, const std::vector<int64_t>& shape) {
  size_t stride = 1;
  for (int64_t dim : shape) stride *= static_cast<size_t>(dim);
  size_t index = 0;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const auto dim = static_cast<size_t>(shape[axis]);
    stride /= dim;
    index += (i % dim) * stride;
    i /= dim;
  }
  return index;
}

// Elements of 'size' bytes in C order and, where 'swap', in the other byte order.
std::string Arranged(const Header& header, size_t size, size_t count, bool swap) {
  std::string out;
  out.reserve(size * count);
  for (size_t i = 0; i < count; ++i) {
    const size_t from = header.fortran ? FortranIndex(i, header.shape) : i;
    const std::string_view element = header.data.substr(from * size, size);
    if (swap) {
      out.append(element.rbegin(), element.rend());
    } else {
      out.append(element);
    }
  }
  return out;
}

absl::StatusOr<Tensor> Strings(const Header& header, size_t size, size_t count) {
  Tensor out{.dtype = DataType::kBytes, .shape = header.shape, .data = ""};
  const std::string elements = Arranged(header, size, count, false);
  for (size_t i = 0; i < count; ++i) {
    std::string text = elements.substr(i * size, size);
    text.resize(text.find_last_not_of('\0') + 1);
    if (auto status = AppendElement(text, DataType::kBytes, &out.data); !status.ok()) return status;
  }
  return out;
}

std::string Preamble(std::string_view descr, const std::vector<int64_t>& shape) {
  std::string dict = absl::StrCat("{'descr': '", AbslView(descr),
                                  "', 'fortran_order': False, 'shape': (",
                                  absl::StrJoin(shape, ", "), shape.size() == 1 ? ",), }" : "), }");
  const size_t fixed = kMagic.size() + 4;
  dict.append(kAlignment - (fixed + dict.size() + 1) % kAlignment, ' ');
  dict += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\x00';
  out += static_cast<char>(dict.size() & 0xFF);
  out += static_cast<char>(dict.size() >> 8);
  return out + dict;
}

absl::StatusOr<std::string> FormatStrings(const Tensor& tensor) {
  const auto elements = Elements(tensor);
  if (!elements.ok()) return elements.status();
  size_t longest = 1;
  for (const Element& element : *elements) {
    const auto& text = std::get<std::string>(element);
    if (text.ends_with('\0')) {
      return absl::InvalidArgumentError("an element ends in NUL, which .npy cannot keep");
    }
    longest = std::max(longest, text.size());
  }
  std::string out = Preamble(absl::StrCat("|S", longest), tensor.shape);
  for (const Element& element : *elements) {
    const auto& text = std::get<std::string>(element);
    out += text;
    out.append(longest - text.size(), '\0');
  }
  return out;
}

}  // namespace

absl::StatusOr<Tensor> ParseNpy(std::string_view file) {
  auto header = ParseHeader(file);
  if (!header.ok()) return header.status();
  if (header->descr.size() < 3) return Bad("no element type");
  const char order = header->descr[0];
  const std::string_view code = std::string_view(header->descr).substr(1);
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                 [&](const Kind& k) { return k.code == code; });
  int64_t size = 0;
  const bool strings = code[0] == 'S' && absl::SimpleAtoi(AbslView(code.substr(1)), &size);
  if (kind != kKinds.end()) size = static_cast<int64_t>(DataTypeSize(kind->dtype));
  if (size <= 0 || std::string_view("<>|=").find(order) == std::string_view::npos) {
    return Bad(absl::StrCat("element type '", header->descr, "'"));
  }
  const auto count = CheckedElementCount(header->shape);
  const auto bytes = count ? CheckedMul(*count, size) : std::nullopt;
  if (!bytes || static_cast<size_t>(*bytes) != header->data.size()) {
    return Bad(absl::StrCat(header->data.size(), " bytes of data do not fit its shape [",
                            absl::StrJoin(header->shape, ","), "]"));
  }
  const auto elements = static_cast<size_t>(*count);
  if (strings) return Strings(*header, static_cast<size_t>(size), elements);
  return Tensor{.dtype = kind->dtype,
                .shape = header->shape,
                .data = Arranged(*header, static_cast<size_t>(size), elements, order == '>')};
}

absl::StatusOr<std::string> FormatNpy(const Tensor& tensor) {
  if (tensor.dtype == DataType::kBytes) return FormatStrings(tensor);
  if (tensor.dtype == DataType::kBf16) {
    const auto wide = Convert(tensor, DataType::kFp32);
    if (!wide.ok()) return wide.status();
    return FormatNpy(*wide);
  }
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                 [&](const Kind& k) { return k.dtype == tensor.dtype; });
  if (kind == kKinds.end()) return absl::InvalidArgumentError("a tensor needs a datatype");
  const char* order = DataTypeSize(tensor.dtype) == 1 ? "|" : "<";
  return Preamble(absl::StrCat(order, AbslView(kind->code)), tensor.shape) + tensor.data;
}

}  // namespace belfry::cli
