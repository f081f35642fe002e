#include "device/manifest/reader.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "device/manifest/paths.h"

namespace belfry {
namespace {

constexpr size_t kMaxKeyFields = 512;
constexpr size_t kMaxText = 4096;
constexpr size_t kMaxFiles = 4096;
constexpr size_t kMaxKind = 64;
constexpr size_t kMaxPath = 1024;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 50;

#define RETURN_IF_ERROR(expr) \
  if (auto status_ = (expr); !status_.ok()) return status_

absl::StatusOr<std::string> ReadSha256(const JsonView& parent, std::string_view name) {
  auto field = parent.Field(name);
  if (!field.ok()) return field.status();
  auto text = field->String(64);
  const bool good = text.ok() && text->size() == 64 &&
                    std::all_of(text->begin(), text->end(), [](char c) {
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                    });
  if (!good) return field->Wrong("64 lower-case hex digits");
  return text;
}

// {"a": {"b": 1}} -> "a.b": "1".
absl::Status Flatten(const JsonView& view, const std::string& prefix,
                     std::map<std::string, std::string>* out) {
  for (const auto& [name, value] : view.value().items()) {
    const std::string key = absl::StrCat(prefix, name);
    const JsonView child(value, absl::StrCat(view.path(), ".", name));
    if (value.is_object()) {
      RETURN_IF_ERROR(Flatten(child, absl::StrCat(key, "."), out));
    } else if (value.is_string()) {
      auto text = child.String(kMaxText);
      if (!text.ok()) return text.status();
      (*out)[key] = *std::move(text);
    } else {
      std::string text = JsonText(value);
      if (text.size() > kMaxText) return child.Wrong("a short value");
      (*out)[key] = std::move(text);
    }
    if (out->size() > kMaxKeyFields) {
      return view.Wrong(absl::StrCat("at most ", kMaxKeyFields, " fields"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadKeyFields(const JsonView& root, Manifest* manifest) {
  auto fields = root.Field("key_fields");
  if (!fields.ok()) return fields.status();
  RETURN_IF_ERROR(fields->IsObject(kMaxKeyFields));
  for (const char* name : {"target", "driver", "arch", "isa", "torch", "compiler"}) {
    auto text = fields->StringField(name, kMaxText);
    if (!text.ok()) return text.status();
  }
  auto model = ReadSha256(*fields, "model_sha256");
  if (!model.ok()) return model.status();
  return Flatten(*fields, "", &manifest->key_fields);
}

absl::Status ReadFiles(const JsonView& root, Manifest* manifest) {
  auto files = root.Field("files");
  if (!files.ok()) return files.status();
  auto count = files->ArraySize(kMaxFiles);
  if (!count.ok()) return count.status();
  if (*count == 0) return files->Wrong("at least one file");
  std::set<std::string> seen;
  for (size_t i = 0; i < *count; ++i) {
    const JsonView one = files->Element(i);
    ManifestFile file;
    auto path = one.StringField("path", kMaxPath);
    if (!path.ok()) return path.status();
    if (!IsSafeRelativePath(*path) || *path == "manifest.json") {
      return one.Field("path")->Wrong("a relative path inside the artifact's folder");
    }
    if (!seen.insert(*path).second) return one.Field("path")->Wrong("each path only once");
    auto sha256 = ReadSha256(one, "sha256");
    if (!sha256.ok()) return sha256.status();
    auto bytes = one.UintField("bytes", kMaxFileBytes);
    if (!bytes.ok()) return bytes.status();
    manifest->files.push_back({*std::move(path), *std::move(sha256), *bytes});
  }
  return absl::OkStatus();
}

absl::Status ReadEntry(const JsonView& root, Manifest* manifest) {
  auto entry = root.Field("entry");
  if (!entry.ok()) return entry.status();
  auto kind = entry->StringField("kind", kMaxKind);
  if (!kind.ok()) return kind.status();
  if (kind->empty()) return entry->Field("kind")->Wrong("the kind of artifact");
  auto path = entry->StringField("path", kMaxPath);
  if (!path.ok()) return path.status();
  const bool listed = IsSafeRelativePath(*path) &&
                      std::any_of(manifest->files.begin(), manifest->files.end(),
                                  [&](const ManifestFile& f) {
                                    return f.path == *path ||
                                           absl::StartsWith(f.path, absl::StrCat(*path, "/"));
                                  });
  if (!listed) return entry->Field("path")->Wrong("one of the files or a folder of them");
  manifest->entry_kind = *std::move(kind);
  manifest->entry_path = *std::move(path);
  return absl::OkStatus();
}

absl::Status ReadReport(const JsonView& root, Manifest* manifest) {
  auto report = root.Field("report");
  if (!report.ok()) return report.status();
  if (!report->value().is_object()) return report->Wrong("an object");
  manifest->report_json = JsonText(report->value());
  auto seconds = report->Field("seconds");
  if (!seconds.ok()) return seconds.status();
  auto value = seconds->Number();
  if (!value.ok()) return value.status();
  if (*value < 0) return seconds->Wrong("at least 0");
  manifest->compile_seconds = *value;
  const auto numerics = report->Optional("numerics");
  if (!numerics) return absl::OkStatus();
  if (const auto error = numerics->Optional("max_abs")) {
    auto max_abs = error->Number();
    if (!max_abs.ok()) return max_abs.status();
    manifest->max_abs_error = *max_abs;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadManifestJson(const JsonView& root, Manifest* manifest) {
  auto format = root.IntField("format", 1, 1);
  if (!format.ok()) return format.status();
  manifest->format = static_cast<int>(*format);
  auto key = ReadSha256(root, "key");
  if (!key.ok()) return key.status();
  manifest->key = *std::move(key);
  RETURN_IF_ERROR(ReadKeyFields(root, manifest));
  auto target = root.StringField("target", kMaxKind);
  if (!target.ok()) return target.status();
  if (*target != manifest->key_fields["target"]) {
    return root.Field("target")->Wrong(
        absl::StrCat("key_fields.target, \"", manifest->key_fields["target"], "\""));
  }
  manifest->target = *std::move(target);
  RETURN_IF_ERROR(ReadSignature(root, &manifest->signature));
  RETURN_IF_ERROR(ReadFiles(root, manifest));
  RETURN_IF_ERROR(ReadEntry(root, manifest));
  return ReadReport(root, manifest);
}

}  // namespace belfry
