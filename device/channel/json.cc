#include "device/channel/json.h"

#include <cmath>
#include <exception>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"

namespace belfry {
namespace {

using nlohmann::json;

// True if brackets nest deeper than 'limit'. Strings are skipped; a text that is
// not JSON may be misjudged, which the parser then finds.
bool DeeperThan(std::string_view text, int limit) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > limit) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

constexpr size_t kShownBytes = 80;

}  // namespace

absl::StatusOr<json> ParseJsonObject(std::string_view text, size_t max_bytes, int max_depth) {
  if (text.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON of ", text.size(), " bytes, expected at most ", max_bytes));
  }
  if (DeeperThan(text, max_depth)) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON nests deeper than ", max_depth, " levels"));
  }
  // The library tells the place of an error only by an exception.
  try {
    json value = json::parse(text.begin(), text.end());
    if (!value.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat("JSON ", value.type_name(), ", expected an object"));
    }
    return value;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory to parse JSON");
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("not JSON: ", e.what()));
  }
}

std::string JsonText(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string JsonView::Child(std::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", AbslView(name));
}

absl::Status JsonView::Wrong(std::string_view expected) const {
  std::string text;
  if (value_->is_structured()) {
    text = absl::StrCat("an ", value_->type_name());  // may be long
  } else {
    text = JsonText(*value_);
    if (text.size() > kShownBytes) text = absl::StrCat(text.substr(0, kShownBytes), "…");
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path_.empty() ? "value" : path_, " is ", text, ", expected ", AbslView(expected)));
}

absl::StatusOr<JsonView> JsonView::Field(std::string_view name) const {
  if (!value_->is_object()) return Wrong("an object");
  const auto it = value_->find(name);
  if (it == value_->end()) {
    return absl::InvalidArgumentError(absl::StrCat(Child(name), " is missing"));
  }
  return JsonView(*it, Child(name));
}

std::optional<JsonView> JsonView::Optional(std::string_view name) const {
  if (!value_->is_object()) return std::nullopt;
  const auto it = value_->find(name);
  if (it == value_->end() || it->is_null()) return std::nullopt;
  return JsonView(*it, Child(name));
}

JsonView JsonView::Element(size_t index) const {
  return JsonView((*value_)[index], absl::StrCat(path_, "[", index, "]"));
}

absl::StatusOr<int64_t> JsonView::Int(int64_t min, int64_t max) const {
  bool fits = value_->is_number_integer();
  if (value_->is_number_unsigned()) {
    fits = value_->get_ref<const uint64_t&>() <= static_cast<uint64_t>(INT64_MAX);
  }
  if (fits) {
    const int64_t v = value_->get<int64_t>();
    if (v >= min && v <= max) return v;
  }
  return Wrong(absl::StrCat("an integer from ", min, " to ", max));
}

absl::StatusOr<uint64_t> JsonView::Uint(uint64_t max) const {
  if (value_->is_number_unsigned()) {
    const uint64_t v = value_->get_ref<const uint64_t&>();
    if (v <= max) return v;
  }
  return Wrong(absl::StrCat("an integer from 0 to ", max));
}

absl::StatusOr<double> JsonView::Number() const {
  if (value_->is_number()) {
    const double v = value_->get<double>();
    if (std::isfinite(v)) return v;
  }
  return Wrong("a number");
}

absl::StatusOr<bool> JsonView::Bool() const {
  if (!value_->is_boolean()) return Wrong("true or false");
  return value_->get_ref<const bool&>();
}

absl::StatusOr<std::string> JsonView::String(size_t max_bytes) const {
  if (value_->is_string()) {
    const std::string& s = value_->get_ref<const std::string&>();
    if (s.size() <= max_bytes && s.find('\0') == std::string::npos) return s;
  }
  return Wrong(absl::StrCat("a string of at most ", max_bytes, " bytes"));
}

absl::StatusOr<size_t> JsonView::ArraySize(size_t max) const {
  if (!value_->is_array()) return Wrong("an array");
  if (value_->size() > max) {
    return absl::InvalidArgumentError(absl::StrCat(path_, " has ", value_->size(),
                                                   " elements, expected at most ", max));
  }
  return value_->size();
}

absl::Status JsonView::IsObject(size_t max_fields) const {
  if (!value_->is_object()) return Wrong("an object");
  if (value_->size() > max_fields) {
    return absl::InvalidArgumentError(absl::StrCat(path_, " has ", value_->size(),
                                                   " fields, expected at most ", max_fields));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> JsonView::IntField(std::string_view name, int64_t min,
                                           int64_t max) const {
  auto field = Field(name);
  if (!field.ok()) return field.status();
  return field->Int(min, max);
}

absl::StatusOr<uint64_t> JsonView::UintField(std::string_view name, uint64_t max) const {
  auto field = Field(name);
  if (!field.ok()) return field.status();
  return field->Uint(max);
}

absl::StatusOr<bool> JsonView::BoolField(std::string_view name) const {
  auto field = Field(name);
  if (!field.ok()) return field.status();
  return field->Bool();
}

absl::StatusOr<std::string> JsonView::StringField(std::string_view name,
                                                  size_t max_bytes) const {
  auto field = Field(name);
  if (!field.ok()) return field.status();
  return field->String(max_bytes);
}

}  // namespace belfry
