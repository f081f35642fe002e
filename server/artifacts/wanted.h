// From a request to the key of the artifact that answers it.
#ifndef BELFRY_SERVER_ARTIFACTS_WANTED_H_
#define BELFRY_SERVER_ARTIFACTS_WANTED_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/artifacts/cache.h"
#include "server/artifacts/key.h"
#include "server/artifacts/store.h"
#include "server/artifacts/worker.h"

namespace belfry::artifacts {

// The key of 'request' for this compiler. The driver says what an artifact must
// be made for; what it does not tell, the compiler does.
absl::StatusOr<ArtifactKey> WantedKey(const CompileRequest& request,
                                      const std::string& model_sha256,
                                      const CompilerIdentity& compiler);

// FAILED_PRECONDITION when this compiler cannot make what the driver runs.
absl::Status CheckSameTorch(const CompileRequest& request, const CompilerIdentity& compiler);

// Without a compiler its version is not known, and neither is what the driver
// does not tell: the cached artifacts that agree in all other fields, best first.
struct Matches {
  ArtifactKey asked;                 // with "?" in the fields not known
  std::vector<std::string> unknown;  // those fields
  std::vector<std::string> names;    // of the artifacts
};
absl::StatusOr<Matches> MatchCached(const CompileRequest& request,
                                    const std::string& model_sha256,
                                    const std::vector<Cache::Listing>& cached);

// For people: in what the nearest cached artifact of the same model differs.
std::string Explain(const ArtifactKey& asked, const std::vector<std::string>& unknown,
                    const std::vector<Cache::Listing>& cached);

// "arch=x86_64, driver=cpu/1, …"
std::string FieldsForPeople(const ArtifactKey& key, const std::vector<std::string>& unknown);

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_WANTED_H_
