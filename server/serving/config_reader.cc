#include "server/serving/config_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "device/channel/text.h"
#include "server/base/edit_distance.h"
#include "server/telemetry/log.h"

namespace belfry::serving {
namespace {

constexpr size_t kMaxName = 256;
constexpr size_t kMaxFaults = 50;  // more help nobody

std::string Shown(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull: return "empty";
    case YamlNode::Kind::kList: return absl::StrCat("a list of ", node.items.size());
    case YamlNode::Kind::kMap: return absl::StrCat("a map of ", node.items.size() / 2);
    case YamlNode::Kind::kScalar: break;
  }
  const std::string text = telemetry::Sanitize(node.scalar, 80);
  return node.quoted ? absl::StrCat("\"", text, "\"") : absl::StrCat("'", text, "'");
}

bool IsDecimal(std::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  if (text.empty() || (text[0] == '0' && text.size() > 1)) return false;
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

// SimpleAtod also takes hex floats, inf and nan.
bool IsFloat(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
}

}  // namespace

std::string Nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > 64) return "";
  std::string best;
  size_t least = std::numeric_limits<size_t>::max();
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(word, candidate);
    const size_t allowed = std::max<size_t>(1, candidate.size() / 3);
    if (distance <= allowed && distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

bool ConfigReader::CheckMap(const std::string& key, const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kMap) return true;
  Fault(key, node, "a map");
  return false;
}

void ConfigReader::ReadFields(const YamlNode& root, const std::map<std::string, Field>& fields) {
  if (root.kind == YamlNode::Kind::kNull) return;  // an empty file: all defaults
  if (!CheckMap("the file", root)) return;
  std::vector<std::string> known;
  for (const auto& [name, field] : fields) known.push_back(name);
  std::map<std::string, int> seen;
  for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
    const YamlNode& key = root.items[i];
    const auto field = fields.find(key.scalar);
    if (field == fields.end()) {
      const std::string nearest = Nearest(key.scalar, known);
      FaultText(key.line,
                absl::StrCat("unknown key '", telemetry::Sanitize(key.scalar, 80), "', expected ",
                             nearest.empty() ? absl::StrCat("one of ", absl::StrJoin(known, ", "))
                                             : absl::StrCat("'", nearest, "' perhaps")));
      continue;
    }
    const auto [first, fresh] = seen.emplace(key.scalar, key.line);
    if (!fresh) {
      FaultText(key.line, absl::StrCat(key.scalar, " is given twice, first in line ",
                                       first->second, ", expected once"));
      continue;
    }
    field->second(key.scalar, root.items[i + 1]);
  }
}

void ConfigReader::ReadNamed(const std::string& key, const YamlNode& node, size_t most,
                             const Field& field) {
  if (!CheckMap(key, node)) return;
  if (node.items.size() / 2 > most) {
    Fault(key, node, absl::StrCat("at most ", most, " entries"));
    return;
  }
  std::set<std::string> seen;
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    const std::string name = ReadName(absl::StrCat("a name in ", key), node.items[i]);
    if (name.empty()) continue;
    if (!seen.insert(name).second) {
      FaultText(node.items[i].line, absl::StrCat(key, ".", telemetry::Sanitize(name, 80),
                                                 " is given twice, expected once"));
      continue;
    }
    field(name, node.items[i + 1]);
  }
}

int64_t ConfigReader::ReadInt(const std::string& key, const YamlNode& node, int64_t min,
                              int64_t max, int64_t fallback) {
  int64_t value;
  if (node.kind == YamlNode::Kind::kScalar && !node.quoted && IsDecimal(node.scalar) &&
      absl::SimpleAtoi(node.scalar, &value) && value >= min && value <= max) {
    return value;
  }
  Fault(key, node, absl::StrCat("a whole number from ", min, " to ", max));
  return fallback;
}

double ConfigReader::ReadNumber(const std::string& key, const YamlNode& node, double min,
                                double fallback) {
  double value;
  if (node.kind == YamlNode::Kind::kScalar && !node.quoted && IsFloat(node.scalar) &&
      absl::SimpleAtod(node.scalar, &value) && std::isfinite(value) && value >= min) {
    return value;
  }
  Fault(key, node, min == 0 ? "a finite number of at least 0, such as 1e-4" : "a finite number");
  return fallback;
}

bool ConfigReader::ReadBool(const std::string& key, const YamlNode& node, bool fallback) {
  if (node.kind == YamlNode::Kind::kScalar && !node.quoted) {
    if (node.scalar == "true") return true;
    if (node.scalar == "false") return false;
  }
  Fault(key, node, "true or false");
  return fallback;
}

absl::Duration ConfigReader::ReadDuration(const std::string& key, const YamlNode& node,
                                          absl::Duration min, absl::Duration max,
                                          absl::Duration fallback) {
  absl::Duration value;
  if (node.kind == YamlNode::Kind::kScalar && absl::ParseDuration(node.scalar, &value) &&
      value >= min && value <= max) {
    return value;
  }
  Fault(key, node,
        absl::StrCat("a time with its unit (5ms, 1.5s, 2m) from ", absl::FormatDuration(min),
                     " to ", absl::FormatDuration(max)));
  return fallback;
}

std::string ConfigReader::ReadName(const std::string& key, const YamlNode& node) {
  const bool good = node.kind == YamlNode::Kind::kScalar && !node.scalar.empty() &&
                    node.scalar.size() <= kMaxName &&
                    telemetry::Sanitize(node.scalar, kMaxName).size() == node.scalar.size();
  if (good) return node.scalar;
  Fault(key, node, absl::StrCat("a name of 1 to ", kMaxName, " printable ASCII characters"));
  return "";
}

std::vector<std::string> ConfigReader::ReadNames(const std::string& key, const YamlNode& node,
                                                 size_t most, bool repeats) {
  std::vector<std::string> names;
  if (node.kind != YamlNode::Kind::kList || node.items.empty() || node.items.size() > most) {
    Fault(key, node, absl::StrCat("a list of 1 to ", most, " names"));
    return names;
  }
  std::set<std::string> seen;
  for (size_t i = 0; i < node.items.size(); ++i) {
    std::string name = ReadName(absl::StrCat(key, "[", i, "]"), node.items[i]);
    if (name.empty()) continue;
    if (!repeats && !seen.insert(name).second) {
      Fault(absl::StrCat(key, "[", i, "]"), node.items[i], "names that differ");
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<int64_t> ConfigReader::ReadSizes(const std::string& key, const YamlNode& node,
                                             size_t most, int64_t max) {
  std::vector<int64_t> sizes;
  if (node.kind != YamlNode::Kind::kList || node.items.empty() || node.items.size() > most) {
    Fault(key, node, absl::StrCat("a list of 1 to ", most, " ascending sizes"));
    return sizes;
  }
  for (size_t i = 0; i < node.items.size(); ++i) {
    const std::string name = absl::StrCat(key, "[", i, "]");
    const int64_t size = ReadInt(name, node.items[i], 1, max, 0);
    if (size == 0) continue;
    if (!sizes.empty() && size <= sizes.back()) {
      Fault(name, node.items[i], absl::StrCat("more than the ", sizes.back(), " before it"));
    } else {
      sizes.push_back(size);
    }
  }
  return sizes;
}

void ConfigReader::Fault(const std::string& key, const YamlNode& node, std::string_view expected) {
  FaultText(node.line, absl::StrCat(telemetry::Sanitize(key, 300), " is ", Shown(node),
                                    ", expected ", AbslView(expected)));
}

void ConfigReader::FaultText(int line, std::string text) {
  faults_.emplace(line, absl::StrCat("line ", line, ": ", text));
}

absl::Status ConfigReader::Finish(std::string_view what) {
  if (faults_.empty()) return absl::OkStatus();
  std::vector<std::string> shown;
  for (const auto& [line, text] : faults_) {
    if (shown.size() == kMaxFaults) {
      shown.push_back(absl::StrCat("and ", faults_.size() - kMaxFaults, " more"));
      break;
    }
    shown.push_back(text);
  }
  return absl::InvalidArgumentError(absl::StrCat(AbslView(what), " has ", faults_.size(),
                                                 faults_.size() == 1 ? " fault: " : " faults: ",
                                                 absl::StrJoin(shown, "; ")));
}

}  // namespace belfry::serving
