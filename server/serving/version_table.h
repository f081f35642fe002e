// All versions that the manager knows, with what is wished of each and what is
// being done with it.
#ifndef BELFRY_SERVER_SERVING_VERSION_TABLE_H_
#define BELFRY_SERVER_SERVING_VERSION_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/serving/version.h"
#include "server/serving/version_policy.h"

namespace belfry::serving {

// Versions of a model that have ended and are still shown; older ones are
// forgotten but for their digest.
inline constexpr size_t kKeepEnded = 32;

struct VersionSlot {
  std::shared_ptr<Version> version;
  Wish wish = Wish::kServe;
  int busy = 0;         // tasks under way
  // It was asked for while it was leaving: start anew, from 'origin', once it
  // has left.
  bool again = false;
  Origin origin;
};

// Not thread-safe: guarded by the manager's mutex. Calls nothing slow.
class VersionTable {
 public:
  using Versions = std::map<int64_t, VersionSlot>;

  VersionSlot* Find(std::string_view model, int64_t number);
  VersionSlot* FindExecutable(cards::ExecutableId executable);
  Versions* Model(std::string_view model);  // null if there is none
  // By the text that a caller gave. INVALID_ARGUMENT or NOT_FOUND, naming what
  // there is.
  absl::StatusOr<std::shared_ptr<Version>> Lookup(const std::string& model,
                                                  const std::string& version);
  // One more than any number that this model ever had.
  int64_t NextNumber(std::string_view model) const;

  VersionSlot& Add(std::shared_ptr<Version> version);
  // Of a version that was forgotten; empty if none is known.
  std::string ForgottenDigest(const std::string& label) const;

  // Lower versions of the model that are to serve will go once this one serves.
  void Supersede(std::string_view model, int64_t number);
  // Asks for a version that is known. True if something starts by that.
  bool Ask(VersionSlot& slot, Origin origin);

  std::vector<VersionView> Views(std::string_view model);
  // Forgets the lowest versions that have ended, beyond kKeepEnded of them.
  std::vector<std::shared_ptr<Version>> Prune(std::string_view model);

  void ForEach(absl::FunctionRef<void(VersionSlot&)> visit);
  std::vector<std::shared_ptr<Version>> All() const;

 private:
  std::map<std::string, Versions, std::less<>> models_;
  std::map<std::string, std::string> forgotten_;            // label -> sha256
  std::map<std::string, int64_t, std::less<>> highest_;     // model -> number
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_VERSION_TABLE_H_
