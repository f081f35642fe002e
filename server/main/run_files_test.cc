#include "server/main/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "server/base/files.h"

namespace belfry {
namespace {

using ::testing::HasSubstr;

class RunFilesTest : public ::testing::Test {
 protected:
  RunFilesTest() : dir_(*FileSystem::Real().CreateTempDir(::testing::TempDir() + "run_files")) {}
  ~RunFilesTest() override { FileSystem::Real().RemoveTree(dir_).IgnoreError(); }
  const std::string dir_;
};

TEST_F(RunFilesTest, TellsTheAddressesWhileTheServerRuns) {
  const std::string path = dir_ + "/data/run/addresses.json";
  {
    const auto run = RunFiles::Open(dir_ + "/data");
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE((*run)->WriteAddresses({"127.0.0.1:1", "unix:/a", "127.0.0.1:3"}).ok());
    const auto json = nlohmann::json::parse(*FileSystem::Real().ReadFile(path, 1000));
    EXPECT_EQ(json["inference"], "127.0.0.1:1");
    EXPECT_EQ(json["admin"], "unix:/a");
    EXPECT_EQ(json["metrics"], "127.0.0.1:3");
    EXPECT_EQ(json["pid"], getpid());
  }
  EXPECT_FALSE(FileSystem::Real().Stat(path).ok());
}

TEST_F(RunFilesTest, OneServerAtATime) {
  auto first = RunFiles::Open(dir_);
  ASSERT_TRUE(first.ok());
  const auto second = RunFiles::Open(dir_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("process " + std::to_string(getpid())));
  first->reset();
  EXPECT_TRUE(RunFiles::Open(dir_).ok());
}

}  // namespace
}  // namespace belfry
