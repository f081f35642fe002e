#include "server/serving/model_dir.h"

#include <sys/stat.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/serving/temp_tree.h"

namespace belfry::serving {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> Found(const ModelDirListing& listing) {
  std::vector<std::string> out;
  for (const auto& f : listing.found) out.push_back(f.model + "/" + std::to_string(f.version));
  return out;
}

TEST(ModelDirTest, FindsVersionsByNameAndNumber) {
  TempTree tree;
  tree.Write("b/10/model.pt2");
  tree.Write("b/9/model.pt2");
  tree.Write("a/1/model.pt2");
  tree.Write("a/1/model.yaml", "max_batch: 8\n");
  const auto listing = ListModelDir(tree.root());
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_THAT(Found(*listing), ElementsAre("a/1", "b/9", "b/10"));
  EXPECT_EQ(listing->found[0].model_path, tree.Path("a/1/model.pt2"));
  EXPECT_EQ(listing->found[0].config_path, tree.Path("a/1/model.yaml"));
  EXPECT_EQ(listing->found[1].config_path, "");
  EXPECT_THAT(listing->faults, IsEmpty());
}

TEST(ModelDirTest, OneModelOnly) {
  TempTree tree;
  tree.Write("a/1/model.pt2");
  tree.Write("b/1/model.pt2");
  EXPECT_THAT(Found(*ListModelDir(tree.root(), "b")), ElementsAre("b/1"));
  EXPECT_THAT(Found(*ListModelDir(tree.root(), "c")), IsEmpty());
}

TEST(ModelDirTest, ANameCannotClimbOutOfTheFolder) {
  TempTree tree;
  tree.Write("outside/1/model.pt2");
  const std::string inside = tree.MakeDir("inside");
  for (const char* name : {"../outside", "..", ".", "a/b", "/"}) {
    EXPECT_EQ(ListModelDir(inside, name).status().code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
}

TEST(ModelDirTest, AMissingFolderIsAnError) {
  TempTree tree;
  EXPECT_EQ(ListModelDir(tree.Path("nope")).status().code(), absl::StatusCode::kNotFound);
  const std::string file = tree.Write("file");
  EXPECT_FALSE(ListModelDir(file).ok());
}

TEST(ModelDirTest, WhatIsNoModelIsAFaultAndHidesNothing) {
  TempTree tree;
  tree.Write("good/1/model.pt2");
  tree.Write("good/README.md");
  tree.Write("README.md");
  tree.Write("good/latest/model.pt2");
  tree.Write("good/02/model.pt2");
  tree.Write("good/0/model.pt2");
  tree.Write("good/99999999999999999999/model.pt2");
  tree.MakeDir("good/3");
  tree.MakeDir("good/4/model.pt2");
  tree.Write("-bad-/1/model.pt2");
  tree.Write("echo/1/model.pt2");
  const auto listing = ListModelDir(tree.root());
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_THAT(Found(*listing), ElementsAre("good/1"));
  EXPECT_THAT(listing->faults, SizeIs(8));
  EXPECT_THAT(listing->faults, Contains(HasSubstr("'good/4'")));
  EXPECT_THAT(listing->faults, Contains(HasSubstr("built-in")));
}

TEST(ModelDirTest, HiddenEntriesArePassedOver) {
  TempTree tree;
  tree.Write(".git/1/model.pt2");
  tree.Write("a/.staging/model.pt2");
  const auto listing = ListModelDir(tree.root());
  EXPECT_THAT(Found(*listing), IsEmpty());
  EXPECT_THAT(listing->faults, IsEmpty());
}

// As Kubernetes lays out what it mounts: links that stay inside.
TEST(ModelDirTest, LinksThatStayInsideAreFollowed) {
  TempTree tree;
  tree.Write("..data_1/model.pt2");
  tree.Link("../../..data_1/model.pt2", "a/1/model.pt2");
  const auto listing = ListModelDir(tree.root());
  ASSERT_THAT(Found(*listing), ElementsAre("a/1"));
  EXPECT_EQ(listing->found[0].model_path, tree.Path("..data_1/model.pt2"));
}

TEST(ModelDirTest, TheRootItselfMayBeALink) {
  TempTree tree;
  tree.Write("real/a/1/model.pt2");
  tree.Link("real", "link");
  const auto listing = ListModelDir(tree.Path("link"));
  ASSERT_THAT(Found(*listing), ElementsAre("a/1"));
  EXPECT_EQ(listing->found[0].model_path, tree.Path("real/a/1/model.pt2"));
}

TEST(ModelDirTest, LinksThatLeadOutAreRefused) {
  TempTree tree;
  const std::string secret = tree.Write("secret/model.pt2");
  tree.Write("secret/1/model.pt2");
  tree.Write("secret/model.yaml");
  const std::string root = tree.MakeDir("models");
  tree.Link(secret, "models/file/1/model.pt2");               // the file
  tree.Link(tree.Path("secret"), "models/dir/1");             // the version
  tree.Link(tree.Path("secret"), "models/model");             // the model
  tree.Write("models/config/1/model.pt2");                    // the configuration
  tree.Link(tree.Path("secret/model.yaml"), "models/config/1/model.yaml");
  tree.Link("/etc/passwd", "models/etc/1/model.pt2");
  const auto listing = ListModelDir(root);
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_THAT(Found(*listing), IsEmpty());
  EXPECT_THAT(listing->faults, SizeIs(5));
  for (const auto& fault : listing->faults) EXPECT_THAT(fault, HasSubstr("leads out"));
}

// A neighbour whose name begins alike is not inside.
TEST(ModelDirTest, ASiblingWithTheRootsPrefixIsOutside) {
  TempTree tree;
  const std::string secret = tree.Write("models-secret/model.pt2");
  const std::string root = tree.MakeDir("models");
  tree.Link(secret, "models/a/1/model.pt2");
  EXPECT_THAT(Found(*ListModelDir(root)), IsEmpty());
}

TEST(ModelDirTest, LinksThatLeadNowhereOrInCirclesEnd) {
  TempTree tree;
  tree.Link("model.pt2", "a/1/model.pt2");
  tree.Link("nowhere", "b/1/model.pt2");
  tree.Link("..", "c/1");
  const auto listing = ListModelDir(tree.root());
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_THAT(Found(*listing), IsEmpty());
}

TEST(ModelDirTest, APipeIsNoModelAndDoesNotBlock) {
  TempTree tree;
  tree.MakeDir("a/1");
  ASSERT_EQ(mkfifo(tree.Path("a/1/model.pt2").c_str(), 0600), 0);
  const auto listing = ListModelDir(tree.root());
  EXPECT_THAT(Found(*listing), IsEmpty());
  EXPECT_THAT(listing->faults, Contains(HasSubstr("not a regular file")));
}

TEST(ModelDirTest, FaultsAreBounded) {
  TempTree tree;
  for (int i = 0; i < 300; ++i) tree.MakeDir("a/x" + std::to_string(i));
  EXPECT_LE(ListModelDir(tree.root())->faults.size(), 100u);
}

}  // namespace
}  // namespace belfry::serving
