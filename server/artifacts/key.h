// The name of an artifact: a hash over everything that changes its content, and
// nothing else (never a path, a time or the environment). The compiler computes
// the same from the same fields (device/manifest/README.md).
#ifndef BELFRY_SERVER_ARTIFACTS_KEY_H_
#define BELFRY_SERVER_ARTIFACTS_KEY_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace belfry::artifacts {

struct ArtifactKey {
  std::string hex;             // SHA-256 of 'canonical'
  std::string canonical;       // canonical JSON of key_fields
  std::string options;         // canonical JSON of the options in it
  // Flattened for people: "torch" -> "2.13.0+cpu", "options.rtol" -> "0.0001".
  std::map<std::string, std::string> fields;
};

struct KeyParts {
  std::string model_sha256, target, driver, arch, isa, torch, compiler;
  std::string options_json;  // an object
};

// INVALID_ARGUMENT when a part is empty, which names it, or the options are not
// an object.
absl::StatusOr<ArtifactKey> MakeKey(const KeyParts& parts);

// From the text of a manifest: its key_fields, whatever fields they have.
absl::StatusOr<ArtifactKey> KeyOfManifest(std::string_view manifest_json);

// 64 lower-case hex digits.
bool IsKey(std::string_view text);

// The fields in which two keys differ, one line each: "torch: cached '2.12.0',
// asked for '2.13.0'".
std::vector<std::string> DifferingFields(const ArtifactKey& cached, const ArtifactKey& asked);

// Whether they agree in everything but the fields 'ignored'.
bool SameExcept(const ArtifactKey& a, const ArtifactKey& b,
                const std::vector<std::string>& ignored);

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_KEY_H_
