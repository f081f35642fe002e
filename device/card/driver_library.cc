#include "device/card/driver_library.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace belfry::card {
namespace {

std::vector<std::string> SearchPath(const std::string& driver_dir) {
  if (!driver_dir.empty()) return {driver_dir};
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::string bin = self.parent_path().string();
  return {bin, absl::StrCat(bin, "/../lib"), absl::StrCat(bin, "/../lib/belfry")};
}

absl::Status CheckInterface(const belfry_driver* driver, const std::string& path) {
  if (driver == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": belfry_driver_get gave nothing"));
  }
  if (driver->abi != BELFRY_DRIVER_ABI) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": driver interface ", driver->abi,
                                                      ", expected ", BELFRY_DRIVER_ABI));
  }
  const bool complete = driver->name != nullptr && driver->describe != nullptr &&
                        driver->open != nullptr && driver->close != nullptr &&
                        driver->load != nullptr && driver->unload != nullptr &&
                        driver->warm != nullptr && driver->submit != nullptr &&
                        driver->allocate != nullptr && driver->free_buffer != nullptr &&
                        driver->memory != nullptr;
  if (complete) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(path, ": the driver lacks a function"));
}

}  // namespace

absl::StatusOr<const belfry_driver*> LoadDriver(const std::string& name,
                                                const std::string& driver_dir) {
  const std::string file = absl::StrCat("libbelfry_driver_", name, ".so");
  const std::vector<std::string> folders = SearchPath(driver_dir);
  for (const std::string& folder : folders) {
    const std::string path = absl::StrCat(folder, "/", file);
    if (access(path.c_str(), F_OK) != 0) continue;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return absl::FailedPreconditionError(dlerror());
    auto* get = reinterpret_cast<const belfry_driver* (*)()>(dlsym(library, "belfry_driver_get"));
    if (get == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(path, ": no belfry_driver_get"));
    }
    const belfry_driver* driver = get();
    if (auto s = CheckInterface(driver, path); !s.ok()) return s;
    return driver;
  }
  return absl::NotFoundError(
      absl::StrCat("driver '", name, "': no ", file, " in ", absl::StrJoin(folders, ", ")));
}

std::string ErrorText(const belfry_error& error) {
  const size_t n = strnlen(error.text, sizeof error.text);
  return n == 0 ? "the driver gave no reason" : std::string(error.text, n);
}

absl::StatusOr<std::unique_ptr<OpenCard>> OpenCard::Open(const belfry_driver* driver,
                                                         const Options& options) {
  belfry_card_options o = {};
  o.index = options.index;
  o.threads = options.threads;
  o.memory_bytes = options.memory_bytes;
  o.json = options.driver_json.c_str();
  auto error = std::make_unique<belfry_error>();
  belfry_card* card = nullptr;
  if (driver->open(&o, &card, error.get()) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("open card ", options.driver, ":",
                                                      options.index, ": ", ErrorText(*error)));
  }
  return std::unique_ptr<OpenCard>(new OpenCard(driver, card));
}

OpenCard::~OpenCard() { driver_->close(card_); }

OpenCard::Memory OpenCard::memory() const {
  Memory m;
  driver_->memory(card_, &m.used, &m.total);
  return m;
}

}  // namespace belfry::card
