#include "server/serving/model_files.h"

#include <dirent.h>
#include <errno.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/serving/path_guard.h"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

// Of one folder; more is not a model repository.
constexpr size_t kMostEntries = 100'000;

std::string Shown(std::string_view text) { return telemetry::Sanitize(text, 256); }

}  // namespace

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& dir) {
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(opendir(dir.c_str()), &closedir);
  if (handle == nullptr) {
    const int error = errno;
    const std::string what = absl::StrCat("'", Shown(dir), "': ", strerror(error));
    return error == ENOENT ? absl::NotFoundError(what) : absl::FailedPreconditionError(what);
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(handle.get())) {
    if (entry->d_name[0] == '.') continue;
    if (names.size() == kMostEntries) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", Shown(dir), "' has more than ", kMostEntries, " entries"));
    }
    names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<ModelFiles> FilesIn(const std::string& dir, const std::string& model_file,
                                   std::string_view real_root) {
  ModelFiles files;
  auto model = RealPathBelow(model_file, real_root);
  if (!model.ok()) return model.status();
  if (!IsRegularFile(*model)) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", Shown(model_file), "' is not a regular file"));
  }
  files.model_path = *std::move(model);
  auto config = RealPathBelow(absl::StrCat(dir, "/", kConfigFile), real_root);
  if (config.ok()) {
    files.config_path = *std::move(config);
  } else if (!absl::IsNotFound(config.status())) {
    return config.status();
  }
  return files;
}

}  // namespace belfry::serving
