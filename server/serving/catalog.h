// Which versions answer requests right now: name and version -> queue. Read on
// every request, changed rarely.
#ifndef BELFRY_SERVER_SERVING_CATALOG_H_
#define BELFRY_SERVER_SERVING_CATALOG_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "device/manifest/manifest.h"
#include "server/scheduling/model_queue.h"
#include "server/serving/version_state.h"

namespace belfry::serving {

// What the catalog says of one version. Immutable; replaced as a whole.
struct VersionEntry {
  std::string model;
  std::string version;  // decimal
  VersionState state = VersionState::kUploaded;
  std::string reason;   // FAILED: why
  std::string platform; // "aoti", "echo", …
  // Null until the artifact is known.
  std::shared_ptr<const Signature> signature;
  // Null unless READY.
  std::shared_ptr<scheduling::ModelQueue> queue;
};

// Thread-safe. Readers take no lock that a writer holds: each thread keeps a
// reference to the last snapshot and looks at one counter.
class Catalog {
 public:
  Catalog();
  ~Catalog();

  // version: "" (the newest READY one), a number, or "@alias".
  // NOT_FOUND if there is no such model or version (naming those there are),
  // FAILED_PRECONDITION with the state and reason if it is not READY;
  // INVALID_ARGUMENT for a malformed name.
  absl::StatusOr<std::shared_ptr<const VersionEntry>> Resolve(std::string_view model,
                                                              std::string_view version) const;
  // Whatever its state (metadata, status).
  absl::StatusOr<std::shared_ptr<const VersionEntry>> Find(std::string_view model,
                                                           std::string_view version) const;
  std::vector<std::shared_ptr<const VersionEntry>> List() const;  // by name, then number

  void Put(VersionEntry entry);
  void Remove(const std::string& model, const std::string& version);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_CATALOG_H_
