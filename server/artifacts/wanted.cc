#include "server/artifacts/wanted.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace belfry::artifacts {
namespace {

constexpr char kUnknown[] = "?";

std::string OfDriver(const CompileRequest& request, const char* field,
                     const std::string& otherwise) {
  const auto it = request.driver.find(field);
  return it != request.driver.end() && !it->second.empty() ? it->second : otherwise;
}

std::string FieldOf(const ArtifactKey& key, const std::string& name) {
  const auto it = key.fields.find(name);
  return it == key.fields.end() ? "" : it->second;
}

bool Contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

absl::StatusOr<ArtifactKey> WantedKey(const CompileRequest& request,
                                      const std::string& model_sha256,
                                      const CompilerIdentity& compiler) {
  KeyParts parts;
  parts.model_sha256 = model_sha256;
  parts.target = request.target;
  parts.driver = OfDriver(request, "driver", "");
  parts.arch = OfDriver(request, "arch", compiler.arch);
  parts.isa = OfDriver(request, "isa", compiler.isa);
  parts.torch = OfDriver(request, "torch", compiler.torch);
  parts.compiler = compiler.compiler;
  parts.options_json = request.options_json;
  return MakeKey(parts);
}

absl::Status CheckSameTorch(const CompileRequest& request, const CompilerIdentity& compiler) {
  const std::string driver = OfDriver(request, "torch", compiler.torch);
  if (driver == compiler.torch) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the driver of target '", request.target, "' was built with torch ", driver,
      ", the compiler has torch ", compiler.torch,
      "; expected the same, since an artifact runs only on the torch it was compiled with"));
}

absl::StatusOr<Matches> MatchCached(const CompileRequest& request,
                                    const std::string& model_sha256,
                                    const std::vector<Cache::Listing>& cached) {
  Matches matches;
  matches.unknown = {"compiler"};
  for (const char* field : {"driver", "arch", "isa", "torch"}) {
    if (OfDriver(request, field, "").empty()) matches.unknown.push_back(field);
  }
  CompilerIdentity unknown = {kUnknown, kUnknown, kUnknown, kUnknown};
  CompileRequest filled = request;
  if (OfDriver(request, "driver", "").empty()) filled.driver["driver"] = kUnknown;
  absl::StatusOr<ArtifactKey> asked = WantedKey(filled, model_sha256, unknown);
  if (!asked.ok()) return asked.status();
  matches.asked = *std::move(asked);
  for (const Cache::Listing& listing : cached) {  // newest first
    if (SameExcept(listing.key, matches.asked, matches.unknown)) {
      matches.names.push_back(listing.name);
    }
  }
  return matches;
}

std::string FieldsForPeople(const ArtifactKey& key, const std::vector<std::string>& unknown) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : key.fields) {
    if (!Contains(unknown, name)) parts.push_back(absl::StrCat(name, "=", value));
  }
  return absl::StrJoin(parts, ", ");
}

std::string Explain(const ArtifactKey& asked, const std::vector<std::string>& unknown,
                    const std::vector<Cache::Listing>& cached) {
  std::vector<std::string> nearest;
  std::string nearest_name;
  size_t least = std::numeric_limits<size_t>::max();
  for (const Cache::Listing& listing : cached) {
    if (FieldOf(listing.key, "model_sha256") != FieldOf(asked, "model_sha256")) continue;
    std::vector<std::string> lines = DifferingFields(listing.key, asked);
    std::erase_if(lines, [&](const std::string& line) {
      return std::any_of(unknown.begin(), unknown.end(), [&](const std::string& name) {
        return absl::StartsWith(line, absl::StrCat(name, ": "));
      });
    });
    // Another target is another thing altogether.
    const size_t weight =
        lines.size() + (FieldOf(listing.key, "target") == FieldOf(asked, "target") ? 0 : 1000);
    if (weight < least) {
      least = weight;
      nearest = std::move(lines);
      nearest_name = listing.name;
    }
  }
  if (nearest_name.empty()) {
    return absl::StrCat("no artifact of a model with these bytes is cached (model_sha256 ",
                        FieldOf(asked, "model_sha256"), ", ", cached.size(),
                        " artifacts of other models)");
  }
  if (nearest.empty()) return absl::StrCat("cached as ", nearest_name);
  return absl::StrJoin(nearest, "\n");
}

}  // namespace belfry::artifacts
