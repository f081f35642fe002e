// Which versions answer requests right now: name and version -> queue. Read on
// every request, changed rarely.
#ifndef BELFRY_SERVER_SERVING_CATALOG_H_
#define BELFRY_SERVER_SERVING_CATALOG_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
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

// The status with which the queue of a version that leaves service is closed.
// A request that looked the version up just before finds the queue closed; it
// has to look it up again (WithReady does). 'why' is what its client is told if
// no other version takes over.
absl::Status RetiredStatus(std::string_view why);
// Whether a refusal means "look it up again". Survives copies, not rewording.
bool IsRetired(const absl::Status& status);

// Thread-safe. Readers take no lock that a writer holds: each thread keeps a
// reference to the last snapshot and looks at one counter. What a thread has
// seen of a change it never un-sees, and a look-up that begins after Put has
// returned sees it.
//
// A thread that asks no more keeps the last snapshot it saw, and with it the
// entries and their (closed and empty) queues, alive until it ends; artifacts
// and card memory do not hang on them.
class Catalog {
 public:
  Catalog();
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // version: "" (the newest READY one), a number, or "@alias".
  // NOT_FOUND if there is no such model or version (naming those there are),
  // FAILED_PRECONDITION with the state and reason if it is not READY;
  // INVALID_ARGUMENT for a malformed name; UNAVAILABLE once Drain was called.
  absl::StatusOr<std::shared_ptr<const VersionEntry>> Resolve(std::string_view model,
                                                              std::string_view version) const;

  // How a request enters a queue without being lost to a swap of versions:
  // resolves, calls 'attempt' with the entry, and if that returns a status for
  // which IsRetired holds, resolves again and calls it again. 'attempt' submits
  // to entry.queue and must be able to run more than once: what it did for an
  // entry that refused it (validation against its signature above all) it does
  // anew for the next one. Returns the first other status of 'attempt', or that
  // of Resolve. Every further round sees a version that took over in between,
  // so the rounds are few; they are bounded all the same.
  using Attempt = absl::FunctionRef<absl::Status(const std::shared_ptr<const VersionEntry>&)>;
  absl::Status WithReady(std::string_view model, std::string_view version, Attempt attempt) const;

  // Whatever its state (metadata, status); "": the newest READY version, else
  // the newest.
  absl::StatusOr<std::shared_ptr<const VersionEntry>> Find(std::string_view model,
                                                           std::string_view version) const;
  std::vector<std::shared_ptr<const VersionEntry>> List() const;  // by name, then number

  // entry.model and entry.version must be well-formed (names.h); others are
  // ignored.
  void Put(VersionEntry entry);
  void Remove(const std::string& model, const std::string& version);
  // From now on nothing resolves: UNAVAILABLE with 'why'.
  void Drain(std::string_view why);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_CATALOG_H_
