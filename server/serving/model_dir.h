// What lies in a folder of models: NAME/VERSION/model.pt2, beside it perhaps a
// model.yaml. Only looks; loads nothing. Whoever may write there is not trusted
// with more than its own folder: every path is resolved first and must then lie
// below the root, so that a link which leads out of it is refused.
#ifndef BELFRY_SERVER_SERVING_MODEL_DIR_H_
#define BELFRY_SERVER_SERVING_MODEL_DIR_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/serving/model_files.h"

namespace belfry::serving {

struct ModelDirListing {
  std::vector<ModelFiles> found;  // by name, then version
  // What looks like a model and is none, one sentence each, for the log.
  std::vector<std::string> faults;
};

// All versions of all models, or of one. Names that begin with a dot are passed
// over in silence. NOT_FOUND or FAILED_PRECONDITION if the root itself cannot be
// read; everything below it is at most a fault.
absl::StatusOr<ModelDirListing> ListModelDir(const std::string& root,
                                             std::string_view only_model = {});

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_MODEL_DIR_H_
