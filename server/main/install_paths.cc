#include "server/main/install_paths.h"

#include <filesystem>
#include <system_error>

namespace belfry {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string ProgramDir() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? "." : program.parent_path().string();
}

std::string DefaultCardBinary() { return (fs::path(ProgramDir()) / "belfry-card").string(); }

std::string DefaultCompilerDir() {
  const fs::path bin = ProgramDir();
  for (const fs::path& dir : {bin.parent_path() / "share/belfry/compiler",
                              bin.parent_path().parent_path() / "compiler"}) {
    std::error_code error;
    if (fs::exists(dir / "belfry_compiler/__init__.py", error)) return dir.string();
  }
  return "";
}

}  // namespace belfry
