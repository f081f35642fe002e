// A folder of its own for a test, removed with all that is in it.
#ifndef BELFRY_SERVER_SERVING_TEMP_TREE_H_
#define BELFRY_SERVER_SERVING_TEMP_TREE_H_

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "gtest/gtest.h"

namespace belfry::serving {

class TempTree {
 public:
  TempTree() {
    std::string pattern = std::filesystem::canonical(testing::TempDir()) / "belfry.XXXXXX";
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  ~TempTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  TempTree(const TempTree&) = delete;

  const std::string& root() const { return root_; }
  std::string Path(const std::string& relative) const { return root_ + "/" + relative; }
  // Writes a file, making the folders above it.
  std::string Write(const std::string& relative, const std::string& text = "bytes") const {
    const std::string path = Path(relative);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    return path;
  }
  std::string MakeDir(const std::string& relative) const {
    std::filesystem::create_directories(Path(relative));
    return Path(relative);
  }
  void Link(const std::string& target, const std::string& relative) const {
    std::filesystem::create_directories(std::filesystem::path(Path(relative)).parent_path());
    std::filesystem::create_symlink(target, Path(relative));
  }

 private:
  std::string root_;
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_TEMP_TREE_H_
