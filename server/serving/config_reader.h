// Reads typed values out of a YamlNode and collects what is wrong with them.
#ifndef BELFRY_SERVER_SERVING_CONFIG_READER_H_
#define BELFRY_SERVER_SERVING_CONFIG_READER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/serving/yaml_tree.h"

namespace belfry::serving {

// One file, one thread. Every Read… either returns a value within its bounds or
// adds a fault and returns the fallback. 'key' is what the message calls it:
// "buckets.sequence".
class ConfigReader {
 public:
  using Field = std::function<void(const std::string& key, const YamlNode& node)>;

  // Calls the field of each key of the map; faults for keys that are unknown
  // (naming the nearest known one), given twice, or empty.
  void ReadFields(const YamlNode& root, const std::map<std::string, Field>& fields);
  // The same for a map whose keys are names that the model gives.
  void ReadNamed(const std::string& key, const YamlNode& node, size_t most, const Field& field);

  int64_t ReadInt(const std::string& key, const YamlNode& node, int64_t min, int64_t max,
                  int64_t fallback);
  double ReadNumber(const std::string& key, const YamlNode& node, double min, double fallback);
  bool ReadBool(const std::string& key, const YamlNode& node, bool fallback);
  absl::Duration ReadDuration(const std::string& key, const YamlNode& node, absl::Duration min,
                              absl::Duration max, absl::Duration fallback);
  // A name: 1 … 256 printable characters.
  std::string ReadName(const std::string& key, const YamlNode& node);
  // Names, each once unless 'repeats'.
  std::vector<std::string> ReadNames(const std::string& key, const YamlNode& node, size_t most,
                                     bool repeats = false);
  // Ascending sizes from 1 to max.
  std::vector<int64_t> ReadSizes(const std::string& key, const YamlNode& node, size_t most,
                                 int64_t max);

  // "line 3: KEY is GOT, expected EXPECTED".
  void Fault(const std::string& key, const YamlNode& node, std::string_view expected);
  void FaultText(int line, std::string text);

  // OK, or all faults in one message, by line.
  absl::Status Finish(std::string_view what);

 private:
  bool CheckMap(const std::string& key, const YamlNode& node);
  std::multimap<int, std::string> faults_;
};

// The known word that is at most a third of its letters away; "" when none is.
std::string Nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_CONFIG_READER_H_
