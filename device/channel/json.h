// Reading JSON that may be wrong in any way: every access names the field, what
// came and what was expected, and nothing throws.
#ifndef BELFRY_DEVICE_CHANNEL_JSON_H_
#define BELFRY_DEVICE_CHANNEL_JSON_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace belfry {

// INVALID_ARGUMENT with the place and the reason if 'text' is not one JSON
// object, is longer than 'max_bytes', or nests deeper than 'max_depth' (the
// library's own functions recurse).
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, size_t max_bytes,
                                               int max_depth = 32);

// Text of a value; bytes that are not UTF-8 become the replacement character.
std::string JsonText(const nlohmann::json& value);

// A value and the path that led to it, for messages. Does not own the value.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& path() const { return path_; }

  // INVALID_ARGUMENT: "<path> is <text of the value>, expected <what>".
  absl::Status Wrong(std::string_view expected) const;

  // The value must be an object that has the field.
  absl::StatusOr<JsonView> Field(std::string_view name) const;
  // Absent and null are the same.
  std::optional<JsonView> Optional(std::string_view name) const;
  JsonView Element(size_t index) const;  // of an array, index < size

  absl::StatusOr<int64_t> Int(int64_t min, int64_t max) const;
  absl::StatusOr<uint64_t> Uint(uint64_t max) const;
  absl::StatusOr<double> Number() const;  // finite
  absl::StatusOr<bool> Bool() const;
  absl::StatusOr<std::string> String(size_t max_bytes) const;  // without NUL
  // The number of elements of an array.
  absl::StatusOr<size_t> ArraySize(size_t max) const;
  absl::Status IsObject(size_t max_fields) const;

  // Field(name) and then the value.
  absl::StatusOr<int64_t> IntField(std::string_view name, int64_t min, int64_t max) const;
  absl::StatusOr<uint64_t> UintField(std::string_view name, uint64_t max) const;
  absl::StatusOr<bool> BoolField(std::string_view name) const;
  absl::StatusOr<std::string> StringField(std::string_view name, size_t max_bytes) const;

 private:
  std::string Child(std::string_view name) const;

  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace belfry

#endif  // BELFRY_DEVICE_CHANNEL_JSON_H_
