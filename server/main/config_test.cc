#include "server/main/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace belfry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class ConfigTest : public ::testing::Test {
 protected:
  absl::StatusOr<Config> Load(std::vector<std::string> args) {
    ConfigSources sources;
    sources.args = std::move(args);
    sources.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto at = environment_.find(name);
      return at == environment_.end() ? std::nullopt : std::optional(at->second);
    };
    sources.read_file = [this](const std::string& name) -> absl::StatusOr<std::string> {
      const auto at = files_.find(name);
      if (at == files_.end()) return absl::NotFoundError(name + ": no such file");
      return at->second;
    };
    return LoadConfig(sources);
  }
  std::string Fault(std::vector<std::string> args) {
    const auto config = Load(std::move(args));
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(config.status().message());
  }

  std::map<std::string, std::string> environment_;
  std::map<std::string, std::string> files_;
};

TEST_F(ConfigTest, DefaultsServeOnLoopbackOnly) {
  const auto config = Load({"--data-dir", "/d"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->listen, "127.0.0.1:8001");
  EXPECT_EQ(config->metrics_listen, "127.0.0.1:8002");
  EXPECT_EQ(config->admin_listen, "127.0.0.1:8003");
  EXPECT_EQ(config->cards, "cpu:1");
  EXPECT_EQ(config->version_policy, "latest");
}

TEST_F(ConfigTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  files_["f.yaml"] = "data-dir: /file\ncards: cpu:3\nlisten: 127.0.0.1:1\narena-mb: 7\n";
  environment_ = {{"BELFRY_CARDS", "cpu:4"}, {"BELFRY_LISTEN", "127.0.0.1:2"}};
  const auto config = Load({"--config=f.yaml", "--listen", "127.0.0.1:3"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->data_dir, "/file");
  EXPECT_EQ(config->arena_mb, 7);
  EXPECT_EQ(config->cards, "cpu:4");
  EXPECT_EQ(config->listen, "127.0.0.1:3");
  EXPECT_EQ(config->max_message_mb, 128);
}

TEST_F(ConfigTest, TheFileMayComeFromTheEnvironment) {
  files_["f.yaml"] = "data-dir: /file\n";
  environment_ = {{"BELFRY_CONFIG", "f.yaml"}};
  EXPECT_EQ(Load({})->data_dir, "/file");
}

TEST_F(ConfigTest, ListsAreReplacedNotJoined) {
  files_["f.yaml"] = "data-dir: /d\nload-root: [/a, /b]\n";
  EXPECT_THAT(Load({"--config", "f.yaml"})->load_root, ElementsAre("/a", "/b"));
  EXPECT_THAT(Load({"--config", "f.yaml", "--load-root", "/c", "--load-root=/e"})->load_root,
              ElementsAre("/c", "/e"));
  environment_["BELFRY_LOAD_ROOT"] = "/x:/y";
  EXPECT_THAT(Load({"--config", "f.yaml"})->load_root, ElementsAre("/x", "/y"));
}

TEST_F(ConfigTest, AnEmptyVariableIsNotSet) {
  environment_["BELFRY_CARDS"] = "";
  EXPECT_EQ(Load({"--data-dir", "/d"})->cards, "cpu:1");
}

TEST_F(ConfigTest, ReadsEveryKindOfValue) {
  const auto config =
      Load({"--data-dir=/d", "--pin", "--artifacts-only=false", "--compile-timeout", "90",
            "--lame-duck=250ms", "--cache-quota-gb", "0.5", "--log-format", "json"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->pin);
  EXPECT_FALSE(config->artifacts_only);
  EXPECT_EQ(config->compile_timeout, absl::Seconds(90));
  EXPECT_EQ(config->lame_duck, absl::Milliseconds(250));
  EXPECT_EQ(config->cache_quota_gb, 0.5);
  EXPECT_EQ(config->log_format, "json");
}

TEST_F(ConfigTest, NamesTheNearestFlag) {
  EXPECT_THAT(Fault({"--data-dir", "/d", "--card", "cpu:2"}), EndsWith("did you mean --cards"));
  EXPECT_THAT(Fault({"--dta-dir=/d"}), HasSubstr("did you mean --data-dir"));
  files_["f.yaml"] = "data-dir: /d\nmax-mesage-mb: 3\n";
  EXPECT_THAT(Fault({"--config", "f.yaml"}),
              AllOf(HasSubstr("f.yaml:2"), HasSubstr("did you mean max-message-mb")));
}

TEST_F(ConfigTest, TellsAllFaultsOfASource) {
  EXPECT_THAT(Fault({"--data-dir", "/d", "--arena-mb", "0", "--lame-duck", "soon", "--pin=maybe",
                     "--version-policy", "newest", "--max-message-mb", "2048"}),
              AllOf(HasSubstr("--arena-mb: got '0', expected a whole number from 1"),
                    HasSubstr("--lame-duck: got 'soon'"), HasSubstr("--pin: got 'maybe'"),
                    HasSubstr("--version-policy: got 'newest', expected latest|all"),
                    HasSubstr("--max-message-mb: got '2048'")));
}

TEST_F(ConfigTest, ChecksTheTypesOfFileAndEnvironmentToo) {
  files_["f.yaml"] = "data-dir: /d\ncores-per-card: two\n";
  EXPECT_THAT(Fault({"--config", "f.yaml"}), HasSubstr("f.yaml: cores-per-card: got 'two'"));
  environment_["BELFRY_ARENA_MB"] = "-1";
  EXPECT_THAT(Fault({"--data-dir", "/d"}), HasSubstr("BELFRY_ARENA_MB: got '-1'"));
}

TEST_F(ConfigTest, RefusesBrokenFiles) {
  EXPECT_THAT(Fault({"--config", "none.yaml"}), HasSubstr("none.yaml: no such file"));
  files_["f.yaml"] = "data-dir: [/a, /b]\n";
  EXPECT_THAT(Fault({"--config", "f.yaml"}), HasSubstr("expected one value"));
  files_["f.yaml"] = "data-dir: /d\ncards: cpu:1\ncards: cpu:2\n";
  EXPECT_THAT(Fault({"--config", "f.yaml"}), HasSubstr("f.yaml:3: cards stands there twice"));
  files_["f.yaml"] = "- data-dir\n";
  EXPECT_THAT(Fault({"--config", "f.yaml"}), HasSubstr("expected a map"));
  files_["f.yaml"] = "data-dir: [/d\ncards: }\n";
  EXPECT_THAT(Fault({"--config", "f.yaml"}), HasSubstr("f.yaml:2"));
  files_["f.yaml"] = "data-dir: /d\n---\ncards: cpu:2\n";
  EXPECT_THAT(Fault({"--config", "f.yaml"}), HasSubstr("one YAML document"));
  files_["f.yaml"] = "data-dir: /d\nversion: true\n";
  EXPECT_THAT(Fault({"--config", "f.yaml"}), HasSubstr("there is no key version"));
}

TEST_F(ConfigTest, WantsADataDir) { EXPECT_THAT(Fault({}), HasSubstr("--data-dir is required")); }

TEST_F(ConfigTest, WantsValuesAndFlagsOnly) {
  EXPECT_THAT(Fault({"--data-dir"}), HasSubstr("--data-dir needs a value: DIR"));
  EXPECT_THAT(Fault({"--data-dir", "/d", "serve"}), HasSubstr("got 'serve', expected a flag"));
}

TEST_F(ConfigTest, HelpNeedsNothingElseAndTellsEveryFlag) {
  EXPECT_TRUE(Load({"--help"})->help);
  EXPECT_TRUE(Load({"--version"})->version);
  Config config;
  FlagSet flags;
  BindConfig(&config, &flags);
  const std::string help = ConfigHelp();
  for (const Flag& flag : flags.flags()) {
    EXPECT_THAT(help, HasSubstr("  --" + flag.name));
    EXPECT_FALSE(flag.help.empty()) << flag.name;
  }
  EXPECT_THAT(help, HasSubstr("--max-message-mb MIB  [128]"));
}

}  // namespace
}  // namespace belfry
