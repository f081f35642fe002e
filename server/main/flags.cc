#include "server/main/flags.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "device/channel/text.h"
#include "server/base/edit_distance.h"

namespace belfry {
namespace {

constexpr size_t kHelpWidth = 100;
constexpr size_t kHelpIndent = 6;

absl::Status Expected(std::string_view got, std::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("got '", AbslView(got), "', expected ", AbslView(expected)));
}

// Of several values the last.
FlagValue Single(std::string shown, std::string placeholder,
                 std::function<absl::Status(const std::string&)> set) {
  FlagValue value;
  value.shown = std::move(shown);
  value.placeholder = std::move(placeholder);
  value.set = [set = std::move(set)](const std::vector<std::string>& texts) {
    return texts.empty() ? absl::OkStatus() : set(texts.back());
  };
  return value;
}

// Breaks 'text' into lines at spaces, each indented.
std::string Wrapped(const std::string& text) {
  std::string out;
  size_t column = kHelpWidth;  // the first word begins a line
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (column + 1 + word.size() > kHelpWidth) {
      absl::StrAppend(&out, out.empty() ? "" : "\n", std::string(kHelpIndent, ' '), word);
      column = kHelpIndent + word.size();
    } else {
      absl::StrAppend(&out, " ", word);
      column += 1 + word.size();
    }
  }
  return out + "\n";
}

}  // namespace

FlagValue StringValue(std::string* target, std::string placeholder) {
  return Single(*target, std::move(placeholder), [target](const std::string& text) {
    *target = text;
    return absl::OkStatus();
  });
}

FlagValue SwitchValue(bool* target) {
  return Single(*target ? "true" : "", "", [target](const std::string& text) {
    if (text != "true" && text != "false") return Expected(text, "true or false");
    *target = text == "true";
    return absl::OkStatus();
  });
}

FlagValue IntValue(int64_t* target, int64_t min, int64_t max, std::string placeholder) {
  return Single(absl::StrCat(*target), std::move(placeholder),
                [target, min, max](const std::string& text) {
                  int64_t value = 0;
                  if (!absl::SimpleAtoi(text, &value) || value < min || value > max) {
                    return Expected(text, absl::StrCat("a whole number from ", min, " to ", max));
                  }
                  *target = value;
                  return absl::OkStatus();
                });
}

FlagValue DoubleValue(double* target, double min, double max, std::string placeholder) {
  return Single(absl::StrCat(*target), std::move(placeholder),
                [target, min, max](const std::string& text) {
                  double value = 0;
                  if (!absl::SimpleAtod(text, &value) || !(value >= min && value <= max)) {
                    return Expected(text, absl::StrCat("a number from ", min, " to ", max));
                  }
                  *target = value;
                  return absl::OkStatus();
                });
}

FlagValue DurationValue(absl::Duration* target) {
  return Single(absl::FormatDuration(*target), "TIME", [target](const std::string& text) {
    double seconds = 0;
    absl::Duration value;
    if (absl::SimpleAtod(text, &seconds) && std::isfinite(seconds)) {
      value = absl::Seconds(seconds);
    } else if (!absl::ParseDuration(text, &value) || value == absl::InfiniteDuration()) {
      return Expected(text, "a time such as 250ms, 30s or 5m (a bare number is seconds)");
    }
    if (value < absl::ZeroDuration()) return Expected(text, "a time that is not negative");
    *target = value;
    return absl::OkStatus();
  });
}

FlagValue ChoiceValue(std::string* target, std::vector<std::string> choices) {
  const std::string list = absl::StrJoin(choices, "|");
  return Single(*target, list, [target, choices, list](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return Expected(text, list);
    }
    *target = text;
    return absl::OkStatus();
  });
}

FlagValue ListValue(std::vector<std::string>* target, std::string placeholder) {
  FlagValue value;
  value.placeholder = std::move(placeholder);
  value.repeatable = true;
  value.shown = absl::StrJoin(*target, ",");
  value.set = [target](const std::vector<std::string>& texts) {
    *target = texts;
    return absl::OkStatus();
  };
  return value;
}

std::string NearestName(std::string_view name, const std::vector<std::string>& names) {
  std::string nearest;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : names) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

void FlagSet::Add(std::string group, std::string name, FlagValue value, std::string help) {
  flags_.push_back({std::move(name), std::move(value), std::move(help), std::move(group)});
}

const Flag* FlagSet::Find(std::string_view name) const {
  const auto at = std::find_if(flags_.begin(), flags_.end(),
                               [&](const Flag& flag) { return flag.name == name; });
  return at == flags_.end() ? nullptr : &*at;
}

std::string FlagSet::Unknown(std::string_view what, std::string_view name) const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) names.push_back(flag.name);
  const std::string nearest = NearestName(name, names);
  return absl::StrCat("there is no ", AbslView(what), AbslView(name),
                      nearest.empty() ? "" : "; did you mean ",
                      !nearest.empty() && what.ends_with("--") ? "--" : "", nearest);
}

absl::StatusOr<FlagLayer> FlagSet::ReadArgs(const std::vector<std::string>& args,
                                            std::vector<std::string>* positional) const {
  FlagLayer layer;
  std::vector<std::string> faults;
  const auto other = [&](const std::string& arg) {
    if (positional != nullptr) return positional->push_back(arg);
    faults.push_back(absl::StrCat("got '", arg, "', expected a flag"));
  };
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") {
      for (++i; i < args.size(); ++i) other(args[i]);
      break;
    }
    if (!std::string_view(args[i]).starts_with("--")) {
      other(args[i]);
      continue;
    }
    const std::string_view text = std::string_view(args[i]).substr(2);
    const size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    const Flag* flag = Find(name);
    if (flag == nullptr) {
      faults.push_back(Unknown("flag --", name));
      // What follows is most likely its value, not a fault of its own.
      const bool value_follows = equals == std::string_view::npos && i + 1 < args.size() &&
                                 !std::string_view(args[i + 1]).starts_with("--");
      if (value_follows) ++i;
    } else if (equals != std::string_view::npos) {
      layer[name].emplace_back(text.substr(equals + 1));
    } else if (flag->value.placeholder.empty()) {
      layer[name].push_back("true");
    } else if (i + 1 < args.size()) {
      layer[name].push_back(args[++i]);
    } else {
      faults.push_back(absl::StrCat("--", name, " needs a value: ", flag->value.placeholder));
    }
  }
  if (!faults.empty()) return absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
  return layer;
}

absl::Status FlagSet::Apply(const FlagLayer& layer,
                            const std::function<std::string(const std::string&)>& origin) const {
  std::vector<std::string> faults;
  for (const auto& [name, values] : layer) {
    const Flag* flag = Find(name);
    if (flag == nullptr) {
      faults.push_back(Unknown(origin(""), name));
      continue;
    }
    const absl::Status status = flag->value.set(values);
    if (!status.ok()) faults.push_back(absl::StrCat(origin(name), ": ", status.message()));
  }
  if (faults.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
}

std::string FlagSet::Help() const {
  std::vector<std::string> groups;
  for (const Flag& flag : flags_) {
    if (std::find(groups.begin(), groups.end(), flag.group) == groups.end()) {
      groups.push_back(flag.group);
    }
  }
  std::string out;
  for (const std::string& group : groups) {
    absl::StrAppend(&out, "\n", group, ":\n");
    for (const Flag& flag : flags_) {
      if (flag.group != group) continue;
      const FlagValue& value = flag.value;
      absl::StrAppend(&out, "  --", flag.name, value.placeholder.empty() ? "" : " ",
                      value.placeholder, value.repeatable ? "  (may be repeated)" : "",
                      value.shown.empty() ? "" : absl::StrCat("  [", value.shown, "]"), "\n",
                      Wrapped(flag.help));
    }
  }
  return out;
}

}  // namespace belfry
