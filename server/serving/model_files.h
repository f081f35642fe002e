// The files of one version on disk, and what it takes to find them safely.
#ifndef BELFRY_SERVER_SERVING_MODEL_FILES_H_
#define BELFRY_SERVER_SERVING_MODEL_FILES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace belfry::serving {

inline constexpr char kModelFile[] = "model.pt2";
inline constexpr char kConfigFile[] = "model.yaml";

// A version's files, resolved (no link, no "..").
struct ModelFiles {
  std::string model;        // name; empty: not told by the layout
  int64_t version = 0;      // 0: not told by the layout
  std::string model_path;   // the .pt2, a regular file
  std::string config_path;  // model.yaml; empty if there is none
};

// Names in a folder, sorted, those that begin with a dot left out. NOT_FOUND, or
// FAILED_PRECONDITION if it cannot be read or is too large to be meant.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& dir);

// 'model_file' and the model.yaml in 'dir', both of which must lie below
// 'real_root' (resolved). Leaves name and version open.
absl::StatusOr<ModelFiles> FilesIn(const std::string& dir, const std::string& model_file,
                                   std::string_view real_root);

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_MODEL_FILES_H_
