#include "server/serving/load_roots.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/serving/temp_tree.h"

namespace belfry::serving {
namespace {

using testing::HasSubstr;

absl::StatusCode CodeOf(const absl::StatusOr<ModelFiles>& found) { return found.status().code(); }

TEST(LoadRootsTest, AFileInTheUsualLayoutTellsNameAndVersion) {
  TempTree tree;
  tree.Write("card-fraud/3/model.pt2");
  tree.Write("card-fraud/3/model.yaml");
  const auto found = LoadRoots({tree.root()}).Find(tree.Path("card-fraud/3/model.pt2"));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->model, "card-fraud");
  EXPECT_EQ(found->version, 3);
  EXPECT_EQ(found->model_path, tree.Path("card-fraud/3/model.pt2"));
  EXPECT_EQ(found->config_path, tree.Path("card-fraud/3/model.yaml"));
}

TEST(LoadRootsTest, FoldersWork) {
  TempTree tree;
  tree.Write("m/2/model.pt2");
  tree.Write("m/10/model.pt2");
  tree.MakeDir("m/11");  // no model in it
  const LoadRoots roots({tree.root()});
  EXPECT_EQ(roots.Find(tree.Path("m/2"))->version, 2);
  EXPECT_EQ(roots.Find(tree.Path("m/2/"))->version, 2);
  const auto newest = roots.Find(tree.Path("m"));
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(newest->version, 10);
  EXPECT_EQ(newest->model, "m");
}

TEST(LoadRootsTest, AFileElsewhereTellsNothingOfItself) {
  TempTree tree;
  const std::string path = tree.Write("exports/final.pt2");
  const auto found = LoadRoots({tree.root()}).Find(path);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->model, "");
  EXPECT_EQ(found->version, 0);
}

TEST(LoadRootsTest, OutsideIsDeniedWhetherOrNotAnythingIsThere) {
  TempTree tree;
  tree.Write("inside/m/1/model.pt2");
  tree.Write("secret/m/1/model.pt2");
  const LoadRoots roots({tree.Path("inside")});
  const auto there = roots.Find(tree.Path("secret/m/1/model.pt2"));
  const auto not_there = roots.Find(tree.Path("secret/m/2/model.pt2"));
  EXPECT_EQ(CodeOf(there), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf(not_there), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf(roots.Find(tree.Path("inside/../secret/m/1"))),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf(roots.Find(tree.Path("inside/../../../../../../../../../etc/passwd"))),
            absl::StatusCode::kPermissionDenied);
  // "inside-too" only begins like "inside".
  tree.Write("inside-too/m/1/model.pt2");
  EXPECT_EQ(CodeOf(roots.Find(tree.Path("inside-too/m/1"))), absl::StatusCode::kPermissionDenied);
}

TEST(LoadRootsTest, ALinkThatLeadsOutIsDenied) {
  TempTree tree;
  tree.Write("secret/1/model.pt2");
  tree.MakeDir("inside");
  tree.Link(tree.Path("secret"), "inside/m");
  const LoadRoots roots({tree.Path("inside")});
  for (const char* path : {"inside/m", "inside/m/1", "inside/m/1/model.pt2"}) {
    EXPECT_EQ(CodeOf(roots.Find(tree.Path(path))), absl::StatusCode::kPermissionDenied) << path;
  }
}

TEST(LoadRootsTest, ALinkFromOneRootToAnotherIsAllowedIfNamedByIt) {
  TempTree tree;
  tree.Write("b/m/1/model.pt2");
  tree.MakeDir("a");
  tree.Link(tree.Path("b/m"), "a/m");
  EXPECT_EQ(CodeOf(LoadRoots({tree.Path("a"), tree.Path("b")}).Find(tree.Path("a/m"))),
            absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(LoadRoots({tree.Path("a"), tree.Path("b")}).Find(tree.Path("b/m")).ok());
}

TEST(LoadRootsTest, ARootThatIsALinkWorksByBothNames) {
  TempTree tree;
  tree.Write("real/m/1/model.pt2");
  tree.Link("real", "link");
  const LoadRoots roots({tree.Path("link")});
  EXPECT_TRUE(roots.Find(tree.Path("link/m/1")).ok());
  EXPECT_TRUE(roots.Find(tree.Path("real/m/1")).ok());
}

TEST(LoadRootsTest, NothingThereIsNotFound) {
  TempTree tree;
  tree.MakeDir("empty");
  const LoadRoots roots({tree.root()});
  EXPECT_EQ(CodeOf(roots.Find(tree.Path("nope.pt2"))), absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(roots.Find(tree.Path("empty"))), absl::StatusCode::kNotFound);
}

TEST(LoadRootsTest, MalformedPathsAreInvalid) {
  TempTree tree;
  tree.Write("m/1/weights.bin");
  const LoadRoots roots({tree.root()});
  EXPECT_EQ(CodeOf(roots.Find("")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(roots.Find("m/1")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(roots.Find(tree.root() + std::string("/m\0/1", 5))),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(roots.Find("/" + std::string(10'000, 'a'))), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(roots.Find(tree.Path("m/1/weights.bin"))), absl::StatusCode::kInvalidArgument);
}

TEST(LoadRootsTest, WithoutRootsEverythingIsDenied) {
  const auto found = LoadRoots({""}).Find("/etc/passwd");
  EXPECT_EQ(CodeOf(found), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("no folder is set"));
}

}  // namespace
}  // namespace belfry::serving
