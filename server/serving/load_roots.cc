#include "server/serving/load_roots.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "server/serving/names.h"
#include "server/serving/path_guard.h"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

constexpr size_t kMostPathBytes = 4096;

std::string Shown(std::string_view text) { return telemetry::Sanitize(text, 256); }

std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

std::string Base(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The highest version below a folder of versions.
std::optional<int64_t> HighestVersion(const std::vector<std::string>& names,
                                      const std::string& dir) {
  std::optional<int64_t> highest;
  for (const std::string& name : names) {
    const auto number = ParseVersionNumber(name);
    if (!number || (highest && *number < *highest)) continue;
    if (IsRegularFile(absl::StrCat(dir, "/", name, "/", kModelFile))) highest = number;
  }
  return highest;
}

// What NAME/VERSION/model.pt2 says; the file itself may have another name.
void ReadLayout(const std::string& version_dir, ModelFiles* files) {
  const auto number = ParseVersionNumber(Base(version_dir));
  if (!number) return;
  files->version = *number;
  const std::string name = Base(Parent(version_dir));
  if (IsModelName(name)) files->model = name;
}

struct Place {
  std::string dir;   // of the version
  std::string file;  // the .pt2
};

absl::StatusOr<Place> PlaceOfFile(const std::string& file) {
  if (file.ends_with(".pt2")) return Place{Parent(file), file};
  return absl::InvalidArgumentError(absl::StrCat(
      "'", Shown(file), "': expected a .pt2 file, or a folder with ", kModelFile, " in it"));
}

absl::StatusOr<Place> PlaceInFolder(const std::string& dir) {
  Place place{dir, absl::StrCat(dir, "/", kModelFile)};
  if (IsRegularFile(place.file)) return place;
  const auto names = NamesIn(dir);
  if (!names.ok()) return names.status();
  const auto highest = HighestVersion(*names, dir);
  if (!highest) {
    return absl::NotFoundError(absl::StrCat("'", Shown(dir), "' holds no ", kModelFile,
                                            " and no VERSION/", kModelFile));
  }
  absl::StrAppend(&place.dir, "/", *highest);
  place.file = absl::StrCat(place.dir, "/", kModelFile);
  return place;
}

// Without links: what "/a/./b/../c/" spells. Nullopt if it climbs above '/'.
std::optional<std::string> Normalize(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (parts.empty()) {
      return std::nullopt;
    } else {
      parts.pop_back();
    }
  }
  std::string out;
  for (std::string_view part : parts) absl::StrAppend(&out, "/", AbslView(part));
  return out.empty() ? "/" : out;
}

}  // namespace

LoadRoots::LoadRoots(const std::vector<std::string>& roots) {
  for (const std::string& root : roots) {
    if (root.empty()) continue;
    // A relative root of the command line is meant from the start's folder.
    const std::unique_ptr<char, decltype(&free)> here(getcwd(nullptr, 0), &free);
    const bool relative = root[0] != '/' && here != nullptr;
    const std::string absolute = relative ? absl::StrCat(here.get(), "/", root) : root;
    if (auto normal = Normalize(absolute)) roots_.push_back(*std::move(normal));
  }
}

absl::StatusOr<std::string> LoadRoots::Admit(const std::string& path) const {
  absl::Status refused = absl::PermissionDeniedError(
      roots_.empty() ? "no folder is set from which models may be loaded by path"
                     : absl::StrCat("'", Shown(path), "' is not below a folder from which models "
                                    "may be loaded"));
  const auto normal = Normalize(path);
  if (!normal) return refused;
  absl::Status why = refused;
  for (const std::string& root : roots_) {
    const auto real_root = RealPath(root);
    if (!real_root.ok()) continue;
    if (!IsBelow(*normal, root) && !IsBelow(*normal, *real_root)) continue;
    const auto real = RealPathBelow(path, *real_root);
    if (real.ok()) return *real_root;
    why = real.status();
  }
  return why;
}

absl::StatusOr<ModelFiles> LoadRoots::Find(const std::string& path) const {
  if (path.empty() || path[0] != '/' || path.find('\0') != std::string::npos ||
      path.size() > kMostPathBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("path '", Shown(path), "': expected an absolute path"));
  }
  const auto root = Admit(path);
  if (!root.ok()) return root.status();
  const auto real = RealPath(path);
  if (!real.ok()) return real.status();
  const auto place = IsDirectory(*real) ? PlaceInFolder(*real) : PlaceOfFile(*real);
  if (!place.ok()) return place.status();
  auto files = FilesIn(place->dir, place->file, *root);
  if (files.ok()) ReadLayout(place->dir, &*files);
  return files;
}

}  // namespace belfry::serving
