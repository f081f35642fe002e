#include "server/serving/model_config.h"

#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "server/base/canonical_json.h"
#include "server/serving/config_reader.h"
#include "server/serving/yaml_tree.h"

namespace belfry::serving {
namespace {

constexpr int64_t kMaxRows = 1 << 20;
constexpr int64_t kMaxSize = int64_t{1} << 40;  // of a symbol
constexpr int64_t kMaxAxis = 11;                // BELFRY_DRIVER_MAX_RANK - 1
constexpr size_t kMaxBuckets = 64;
constexpr size_t kMaxTensors = 128;
constexpr size_t kMaxLabels = 50'000;
constexpr double kAny = -std::numeric_limits<double>::infinity();

using Field = ConfigReader::Field;

// "cpu", "spyre-sim".
bool IsDriverName(std::string_view name) {
  if (name.empty() || name.size() > 32 || !absl::ascii_islower(name[0])) return false;
  for (unsigned char c : name) {
    if (!absl::ascii_islower(c) && !absl::ascii_isdigit(c) && c != '-') return false;
  }
  return true;
}

// "cpu" or "cpu:0".
bool IsCardName(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return IsDriverName(name);
  const std::string_view index = name.substr(colon + 1);
  uint32_t number;
  return IsDriverName(name.substr(0, colon)) && index.size() <= 4 &&
         index.find_first_not_of("0123456789") == std::string_view::npos &&
         absl::SimpleAtoi(AbslView(index), &number);
}

void ReadCards(ConfigReader& r, const std::string& key, const YamlNode& node,
               std::vector<std::string>& out) {
  out = r.ReadNames(key, node, 256);
  for (const std::string& name : out) {
    if (!IsCardName(name)) {
      r.FaultText(node.line, absl::StrCat(key, " has '", name,
                                          "', expected a driver (cpu) or a card (cpu:0)"));
    }
  }
}

void ReadTargets(ConfigReader& r, const std::string& key, const YamlNode& node,
                 std::vector<std::string>& out) {
  out = r.ReadNames(key, node, 16);
  for (const std::string& name : out) {
    if (!IsDriverName(name)) {
      r.FaultText(node.line, absl::StrCat(key, " has '", name,
                                          "', expected the name of a driver, such as cpu"));
    }
  }
}

std::map<std::string, Field> ServingFields(ConfigReader& r, ModelConfig& c) {
  return {
      {"max_batch",
       [&](auto& key, auto& node) { c.max_batch = r.ReadInt(key, node, 0, kMaxRows, 0); }},
      {"batch_buckets",
       [&](auto& key, auto& node) {
         c.batch_buckets = r.ReadSizes(key, node, kMaxBuckets, kMaxRows);
       }},
      {"batch_delay",
       [&](auto& key, auto& node) {
         c.batch_delay = r.ReadDuration(key, node, absl::ZeroDuration(), absl::Seconds(10),
                                        absl::ZeroDuration());
       }},
      {"max_queue",
       [&](auto& key, auto& node) { c.max_queue = r.ReadInt(key, node, 1, 1'000'000, 8192); }},
      {"priority",
       [&](auto& key, auto& node) {
         c.priority = static_cast<uint32_t>(r.ReadInt(key, node, 1, 3, 2));
       }},
      {"default_deadline",
       [&](auto& key, auto& node) {
         c.default_deadline = r.ReadDuration(key, node, absl::Milliseconds(1), absl::Hours(24),
                                             absl::InfiniteDuration());
       }},
      {"watchdog",
       [&](auto& key, auto& node) {
         c.watchdog = r.ReadDuration(key, node, absl::Milliseconds(10), absl::Hours(1),
                                     absl::Seconds(30));
       }},
      {"cards", [&](auto& key, auto& node) { ReadCards(r, key, node, c.cards); }},
      {"deterministic",
       [&](auto& key, auto& node) { c.deterministic = r.ReadBool(key, node, false); }},
      {"batching", [&](auto& key, auto& node) { c.batching = r.ReadBool(key, node, true); }},
      {"labels",
       [&](auto& key, auto& node) {
         r.ReadNamed(key, node, kMaxTensors, [&](auto& name, auto& value) {
           c.labels[name] = r.ReadNames(absl::StrCat("labels.", name), value, kMaxLabels, true);
         });
       }},
  };
}

std::map<std::string, Field> CompileFields(ConfigReader& r, ModelConfig& c) {
  return {
      {"targets", [&](auto& key, auto& node) { ReadTargets(r, key, node, c.targets); }},
      {"batch_axis",
       [&](auto& key, auto& node) {
         r.ReadNamed(key, node, kMaxTensors, [&](auto& name, auto& value) {
           c.batch_axis[name] = static_cast<int>(
               r.ReadInt(absl::StrCat("batch_axis.", name), value, 0, kMaxAxis, 0));
         });
       }},
      {"buckets",
       [&](auto& key, auto& node) {
         r.ReadNamed(key, node, kMaxTensors, [&](auto& name, auto& value) {
           c.buckets[name] =
               r.ReadSizes(absl::StrCat("buckets.", name), value, kMaxBuckets, kMaxSize);
         });
       }},
      {"pad",
       [&](auto& key, auto& node) {
         r.ReadNamed(key, node, kMaxTensors, [&](auto& name, auto& value) {
           c.pad[name] = r.ReadNumber(absl::StrCat("pad.", name), value, kAny, 0);
         });
       }},
      {"output_names",
       [&](auto& key, auto& node) { c.output_names = r.ReadNames(key, node, kMaxTensors); }},
      {"precision",
       [&](auto& key, auto& node) {
         if (node.kind != YamlNode::Kind::kScalar || node.scalar != "float32") {
           r.Fault(key, node, "float32");
         }
       }},
      {"rtol", [&](auto& key, auto& node) { c.rtol = r.ReadNumber(key, node, 0, 0); }},
      {"atol", [&](auto& key, auto& node) { c.atol = r.ReadNumber(key, node, 0, 0); }},
  };
}

// What no single key can tell.
void CheckTogether(ConfigReader& r, const YamlNode& root, const ModelConfig& c) {
  const auto line_of = [&root](std::string_view name) {
    for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
      if (root.items[i].scalar == name) return root.items[i].line;
    }
    return 1;
  };
  if (c.max_batch > 0 && !c.batch_buckets.empty() && c.batch_buckets.back() > c.max_batch) {
    r.FaultText(line_of("batch_buckets"),
                absl::StrCat("batch_buckets goes up to ", c.batch_buckets.back(),
                             ", expected at most max_batch, ", c.max_batch));
  }
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view yaml) {
  const absl::StatusOr<YamlNode> root = ParseYaml(yaml);
  if (!root.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.yaml has a fault: ", root.status().message()));
  }
  ModelConfig config;
  ConfigReader reader;
  std::map<std::string, Field> fields = ServingFields(reader, config);
  fields.merge(CompileFields(reader, config));
  reader.ReadFields(*root, fields);
  CheckTogether(reader, *root, config);
  if (absl::Status s = reader.Finish("model.yaml"); !s.ok()) return s;
  return config;
}

std::string CompileOptionsJson(const ModelConfig& config) {
  // Only what differs from its default, so that an option added later does not
  // change the key of every artifact that does not use it.
  nlohmann::json options = {{"precision", config.precision}};
  if (!config.batch_axis.empty()) options["batch_axis"] = config.batch_axis;
  if (!config.buckets.empty()) options["buckets"] = config.buckets;
  if (!config.pad.empty()) options["pad"] = config.pad;
  if (!config.output_names.empty()) options["output_names"] = config.output_names;
  if (config.rtol) options["rtol"] = *config.rtol;
  if (config.atol) options["atol"] = *config.atol;
  if (config.deterministic) options["deterministic"] = true;
  if (config.max_batch > 0) options["max_batch"] = config.max_batch;
  if (!config.batch_buckets.empty()) options["batch_buckets"] = config.batch_buckets;
  const absl::StatusOr<std::string> text = CanonicalJson(options);
  // A config that ParseModelConfig gave always has a canonical text; one made by
  // hand with an infinity in it does not, and the compiler will say so.
  return text.ok() ? *text : "null";
}

}  // namespace belfry::serving
