#include "server/artifacts/key.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "nlohmann/json.hpp"
#include "server/base/canonical_json.h"
#include "server/base/files.h"

namespace belfry::artifacts {
namespace {

using nlohmann::json;

// A text as it is, anything else as JSON.
std::string StdView(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  const absl::StatusOr<std::string> text = CanonicalJson(value);
  return text.ok() ? *text : "?";
}

absl::StatusOr<ArtifactKey> FromFields(const json& fields) {
  ArtifactKey key;
  absl::StatusOr<std::string> canonical = CanonicalJson(fields);
  if (!canonical.ok()) return canonical.status();
  key.canonical = *std::move(canonical);
  key.hex = Sha256Hex(key.canonical);
  for (const auto& field : fields.items()) {
    if (field.key() != "options" || !field.value().is_object()) {
      key.fields[field.key()] = StdView(field.value());
      continue;
    }
    key.options = *CanonicalJson(field.value());  // a part of what was canonical already
    for (const auto& option : field.value().items()) {
      key.fields[absl::StrCat("options.", option.key())] = StdView(option.value());
    }
  }
  return key;
}

}  // namespace

absl::StatusOr<ArtifactKey> MakeKey(const KeyParts& parts) {
  const std::pair<const char*, const std::string*> texts[] = {
      {"model_sha256", &parts.model_sha256}, {"target", &parts.target},
      {"driver", &parts.driver},             {"arch", &parts.arch},
      {"isa", &parts.isa},                   {"torch", &parts.torch},
      {"compiler", &parts.compiler},
  };
  json fields = json::object();
  for (const auto& [name, value] : texts) {
    if (value->empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the artifact's key needs the field '", name, "', which neither the driver nor the "
          "compiler tells"));
    }
    fields[name] = *value;
  }
  json options = json::parse(parts.options_json, nullptr, /*allow_exceptions=*/false);
  if (!options.is_object()) {
    return absl::InvalidArgumentError("the compile options are not a JSON object");
  }
  fields["options"] = std::move(options);
  return FromFields(fields);
}

absl::StatusOr<ArtifactKey> KeyOfManifest(std::string_view manifest_json) {
  const json manifest = json::parse(manifest_json, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || !manifest.contains("key_fields") ||
      !manifest["key_fields"].is_object()) {
    return absl::InvalidArgumentError("the manifest has no key_fields");
  }
  return FromFields(manifest["key_fields"]);
}

bool IsKey(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::vector<std::string> DifferingFields(const ArtifactKey& cached, const ArtifactKey& asked) {
  std::vector<std::string> lines;
  const auto quoted = [](const std::map<std::string, std::string>& fields,
                         const std::string& name) {
    const auto it = fields.find(name);
    return it == fields.end() ? std::string("nothing") : absl::StrCat("'", it->second, "'");
  };
  std::map<std::string, std::string> all = cached.fields;
  all.insert(asked.fields.begin(), asked.fields.end());
  for (const auto& [name, unused] : all) {
    const std::string was = quoted(cached.fields, name);
    const std::string is = quoted(asked.fields, name);
    if (was != is) lines.push_back(absl::StrCat(name, ": cached ", was, ", asked for ", is));
  }
  return lines;
}

bool SameExcept(const ArtifactKey& a, const ArtifactKey& b,
                const std::vector<std::string>& ignored) {
  std::map<std::string, std::string> left = a.fields, right = b.fields;
  for (const std::string& name : ignored) {
    left.erase(name);
    right.erase(name);
  }
  return left == right;
}

}  // namespace belfry::artifacts
