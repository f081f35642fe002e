// The folders from which models may be loaded by path.
#ifndef BELFRY_SERVER_SERVING_LOAD_ROOTS_H_
#define BELFRY_SERVER_SERVING_LOAD_ROOTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/serving/model_files.h"

namespace belfry::serving {

// Immutable, thread-safe.
class LoadRoots {
 public:
  // Roots that do not exist (yet) are kept and looked at when asked. Empty ones
  // are passed over.
  explicit LoadRoots(const std::vector<std::string>& roots);

  // 'path' is absolute and names a .pt2 file, a folder that holds model.pt2, or a
  // folder of such folders named by version (the highest is taken). Name and
  // version are told where the layout NAME/VERSION/model.pt2 tells them.
  // INVALID_ARGUMENT: malformed. PERMISSION_DENIED: not below a root, or a link
  // leads out of it; said before it is told whether anything is there.
  // NOT_FOUND: nothing there.
  absl::StatusOr<ModelFiles> Find(const std::string& path) const;

 private:
  // The real root below which 'path' lies.
  absl::StatusOr<std::string> Admit(const std::string& path) const;

  std::vector<std::string> roots_;
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_LOAD_ROOTS_H_
