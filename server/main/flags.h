// Options of a program: one table from which parsing, checking and --help come.
// belfryd and the belfry command both use it.
#ifndef BELFRY_SERVER_MAIN_FLAGS_H_
#define BELFRY_SERVER_MAIN_FLAGS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace belfry {

// How the text of an option becomes a value. 'shown' is the value that is there
// before anything is set, for --help.
struct FlagValue {
  std::function<absl::Status(const std::vector<std::string>&)> set;
  std::string shown;
  std::string placeholder;  // "N"; empty: a switch, which needs no value
  bool repeatable = false;
};

// Each writes through its pointer, which must outlive the FlagSet.
FlagValue StringValue(std::string* target, std::string placeholder);
FlagValue SwitchValue(bool* target);
FlagValue IntValue(int64_t* target, int64_t min, int64_t max, std::string placeholder = "N");
FlagValue DoubleValue(double* target, double min, double max, std::string placeholder = "X");
// "250ms", "30s", "5m", "1h"; a bare number is seconds. Never negative.
FlagValue DurationValue(absl::Duration* target);
FlagValue ChoiceValue(std::string* target, std::vector<std::string> choices);
FlagValue ListValue(std::vector<std::string>* target, std::string placeholder);

struct Flag {
  std::string name;  // without dashes
  FlagValue value;
  std::string help;
  std::string group;
};

// What one source (command line, environment, file) says, by flag name. Of
// several values for a flag that is not repeatable the last one counts.
using FlagLayer = std::map<std::string, std::vector<std::string>>;

// The name among 'names' that a typing error may have turned into 'name';
// empty if none is near.
std::string NearestName(std::string_view name, const std::vector<std::string>& names);

class FlagSet {
 public:
  void Add(std::string group, std::string name, FlagValue value, std::string help);

  const Flag* Find(std::string_view name) const;
  const std::vector<Flag>& flags() const { return flags_; }

  // "--name value", "--name=value", "--switch", "--switch=false"; "--" ends the
  // flags. Everything else goes to 'positional'; null: is a fault. All faults in
  // one message.
  absl::StatusOr<FlagLayer> ReadArgs(const std::vector<std::string>& args,
                                     std::vector<std::string>* positional) const;

  // Sets what the layer says; 'origin' ("--", "BELFRY_…", a file's name) stands
  // before each name in the message about the faults.
  absl::Status Apply(const FlagLayer& layer,
                     const std::function<std::string(const std::string&)>& origin) const;

  // "no flag '--card', did you mean '--cards'?"
  std::string Unknown(std::string_view what, std::string_view name) const;

  // One block for each group, in the order in which they were added.
  std::string Help() const;

 private:
  std::vector<Flag> flags_;
};

}  // namespace belfry

#endif  // BELFRY_SERVER_MAIN_FLAGS_H_
