#include "server/main/config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace belfry {
namespace {

// Flags that make sense on the command line only.
bool OnlyForCommandLine(const std::string& name) { return name == "help" || name == "version"; }

std::string Where(const std::string& file, const YAML::Mark& mark) {
  return absl::StrCat(file, ":", mark.line + 1);
}

// One key of the file. A fault or the empty text.
std::string ReadKey(const std::string& where, const YAML::Node& key, const YAML::Node& value,
                    const FlagSet& flags, FlagLayer* layer) {
  if (!key.IsScalar()) return absl::StrCat(where, ": keys are flag names");
  const std::string& name = key.Scalar();
  const Flag* flag = flags.Find(name);
  if (flag == nullptr || OnlyForCommandLine(name) || name == "config") {
    return absl::StrCat(where, ": ", flags.Unknown("key ", name));
  }
  if (layer->contains(name)) return absl::StrCat(where, ": ", name, " stands there twice");
  if (value.IsScalar()) {
    (*layer)[name].push_back(value.Scalar());
    return "";
  }
  if (!value.IsSequence() || !flag->value.repeatable) {
    return absl::StrCat(where, ": ", name, ": expected one value",
                        flag->value.repeatable ? " or a list of values" : "");
  }
  auto& values = (*layer)[name];
  for (const auto& item : value) {
    if (!item.IsScalar()) return absl::StrCat(where, ": ", name, ": expected a list of values");
    values.push_back(item.Scalar());
  }
  return "";
}

FlagLayer ReadEnvironment(const FlagSet& flags, const ConfigSources& sources) {
  FlagLayer layer;
  for (const Flag& flag : flags.flags()) {
    if (OnlyForCommandLine(flag.name)) continue;
    const auto value = sources.environment(EnvironmentName(flag.name));
    if (!value || value->empty()) continue;
    if (flag.value.repeatable) {
      layer[flag.name] = absl::StrSplit(*value, ':', absl::SkipEmpty());
    } else {
      layer[flag.name].push_back(*value);
    }
  }
  return layer;
}

absl::Status ApplyFile(const std::string& path, const FlagSet& flags,
                       const ConfigSources& sources) {
  const auto text = sources.read_file(path);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--config: ", text.status().message()));
  }
  const auto layer = ParseConfigFile(*text, path, flags);
  if (!layer.ok()) return layer.status();
  return flags.Apply(*layer, [&](const std::string& name) { return path + ": " + name; });
}

}  // namespace

std::string EnvironmentName(const std::string& flag) {
  std::string name = "BELFRY_";
  for (char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

absl::StatusOr<FlagLayer> ParseConfigFile(const std::string& text, const std::string& name,
                                          const FlagSet& flags) {
  FlagLayer layer;
  std::vector<std::string> faults;
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.empty() || documents[0].IsNull()) return layer;  // an empty file
    if (documents.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected one YAML document, got ", documents.size()));
    }
    const YAML::Node& root = documents[0];
    if (!root.IsMap()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected a map of flag names, such as 'cards: cpu:2'"));
    }
    for (const auto& entry : root) {
      std::string fault =
          ReadKey(Where(name, entry.first.Mark()), entry.first, entry.second, flags, &layer);
      if (!fault.empty()) faults.push_back(std::move(fault));
    }
  } catch (const YAML::Exception& e) {
    return absl::InvalidArgumentError(absl::StrCat(Where(name, e.mark), ": ", e.msg));
  }
  if (!faults.empty()) return absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
  return layer;
}

absl::StatusOr<Config> LoadConfig(const ConfigSources& sources) {
  Config config;
  FlagSet flags;
  BindConfig(&config, &flags);
  const auto args = flags.ReadArgs(sources.args, nullptr);
  if (!args.ok()) return args.status();
  if (args->contains("help") || args->contains("version")) {
    config.help = args->contains("help");
    config.version = !config.help;
    return config;
  }
  const FlagLayer environment = ReadEnvironment(flags, sources);

  // The file's name comes from the layers above it.
  std::string file;
  for (const FlagLayer* layer : {&environment, &*args}) {
    if (const auto at = layer->find("config"); at != layer->end()) file = at->second.back();
  }
  if (!file.empty()) {
    if (auto status = ApplyFile(file, flags, sources); !status.ok()) return status;
  }
  if (auto status = flags.Apply(environment, EnvironmentName); !status.ok()) return status;
  if (auto status = flags.Apply(*args, [](const std::string& name) { return "--" + name; });
      !status.ok()) {
    return status;
  }
  if (config.data_dir.empty()) {
    return absl::InvalidArgumentError(
        "--data-dir is required: the folder for the artifact cache and run files");
  }
  return config;
}

}  // namespace belfry
