// A YAML document as a plain tree with line numbers, read with tight limits:
// what a configuration file needs and nothing that can be turned against the
// reader (no aliases, no tags, no second document, bounded depth and size).
#ifndef BELFRY_SERVER_SERVING_YAML_TREE_H_
#define BELFRY_SERVER_SERVING_YAML_TREE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace belfry::serving {

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  int line = 1;  // from 1
  bool quoted = false;  // kScalar: a text whatever it looks like
  std::string scalar;
  // kList: the elements. kMap: key, value, key, value …; keys are scalars and
  // may repeat.
  std::vector<YamlNode> items;
};

inline constexpr size_t kMaxYamlBytes = 1 << 20;
inline constexpr int kMaxYamlDepth = 16;
inline constexpr size_t kMaxYamlNodes = 100'000;

// INVALID_ARGUMENT "line N: …". An empty text is one kNull node.
absl::StatusOr<YamlNode> ParseYaml(std::string_view text);

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_YAML_TREE_H_
