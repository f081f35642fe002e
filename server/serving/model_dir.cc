#include "server/serving/model_dir.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "server/serving/names.h"
#include "server/serving/path_guard.h"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

constexpr size_t kMostFaults = 100;

// Collects one model's versions.
class ModelLister {
 public:
  ModelLister(std::string_view real_root, ModelDirListing* out) : root_(real_root), out_(out) {}

  void List(const std::string& name) {
    const std::string dir = absl::StrCat(AbslView(root_), "/", name);
    if (!IsDirectory(dir)) return;  // a README, say
    if (!IsModelName(name)) return Fault(name, CheckModelName(name));
    if (name == kEcho) {
      return Fault(name, absl::InvalidArgumentError("the name of the built-in model"));
    }
    if (auto real = RealPathBelow(dir, root_); !real.ok()) return Fault(name, real.status());
    const auto versions = NamesIn(dir);
    if (!versions.ok()) return Fault(name, versions.status());
    for (const std::string& version : *versions) ListVersion(name, dir, version);
  }

 private:
  void ListVersion(const std::string& name, const std::string& dir, const std::string& version) {
    const std::string version_dir = absl::StrCat(dir, "/", version);
    const std::string shown = absl::StrCat(name, "/", version);
    if (!IsDirectory(version_dir)) return;
    const auto number = ParseVersionNumber(version);
    if (!number) {
      return Fault(shown, absl::InvalidArgumentError("expected a version number from 1 on"));
    }
    if (auto real = RealPathBelow(version_dir, root_); !real.ok()) {
      return Fault(shown, real.status());
    }
    auto files = FilesIn(version_dir, absl::StrCat(version_dir, "/", kModelFile), root_);
    if (!files.ok()) return Fault(shown, files.status());
    files->model = name;
    files->version = *number;
    out_->found.push_back(*std::move(files));
  }

  void Fault(const std::string& where, const absl::Status& status) {
    if (out_->faults.size() >= kMostFaults) return;
    out_->faults.push_back(
        absl::StrCat("'", telemetry::Sanitize(where, 256), "': ", status.message()));
  }

  std::string_view root_;
  ModelDirListing* out_;
};

}  // namespace

absl::StatusOr<ModelDirListing> ListModelDir(const std::string& root,
                                             std::string_view only_model) {
  const auto real_root = RealPath(root);
  if (!real_root.ok()) return real_root.status();
  ModelDirListing listing;
  ModelLister lister(*real_root, &listing);
  if (!only_model.empty()) {
    if (auto status = CheckModelName(only_model); !status.ok()) return status;
    lister.List(std::string(only_model));
  } else {
    const auto names = NamesIn(*real_root);
    if (!names.ok()) return names.status();
    for (const std::string& name : *names) lister.List(name);
  }
  std::sort(listing.found.begin(), listing.found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.model, a.version) < std::tie(b.model, b.version);
  });
  return listing;
}

}  // namespace belfry::serving
