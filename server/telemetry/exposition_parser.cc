#include "server/telemetry/exposition_parser.h"

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace belfry::telemetry {
namespace {

using LabelMap = std::map<std::string, std::string>;

bool ValidName(absl::string_view name, bool colon) {
  if (name.empty() || absl::ascii_isdigit(name[0])) return false;
  for (unsigned char c : name) {
    if (!absl::ascii_isalnum(c) && c != '_' && !(colon && c == ':')) return false;
  }
  return true;
}

// Reads {a="b",…} at the start of 'rest' and moves it behind.
absl::Status ReadLabels(absl::string_view& rest, LabelMap& labels) {
  rest.remove_prefix(1);
  while (!rest.empty() && rest[0] != '}') {
    const size_t equal = rest.find("=\"");
    if (equal == absl::string_view::npos) return absl::InvalidArgumentError("label without value");
    const std::string name(rest.substr(0, equal));
    if (!ValidName(name, false)) return absl::InvalidArgumentError("label name " + name);
    rest.remove_prefix(equal + 2);
    std::string value;
    while (!rest.empty() && rest[0] != '"') {
      if (rest[0] == '\\') {
        if (rest.size() < 2 || !absl::StrContains("\\\"n", rest[1])) {
          return absl::InvalidArgumentError("escape in a label value");
        }
        value += rest[1] == 'n' ? '\n' : rest[1];
        rest.remove_prefix(2);
      } else {
        value += rest[0];
        rest.remove_prefix(1);
      }
    }
    if (rest.empty()) return absl::InvalidArgumentError("label value without end");
    rest.remove_prefix(1);
    if (!labels.emplace(name, value).second) return absl::InvalidArgumentError("label twice");
    if (!rest.empty() && rest[0] == ',') {
      rest.remove_prefix(1);
      if (rest.empty() || rest[0] == '}') return absl::InvalidArgumentError("comma before }");
    }
  }
  if (rest.empty()) return absl::InvalidArgumentError("labels without end");
  rest.remove_prefix(1);
  return absl::OkStatus();
}

std::string Key(absl::string_view name, const LabelMap& labels) {
  std::string key(name);
  if (labels.empty()) return key;
  key += '{';
  bool first = true;
  for (const auto& [label, value] : labels) {
    absl::StrAppend(&key, first ? "" : ",", label, "=\"", value, "\"");
    first = false;
  }
  return key + '}';
}

struct OneHistogram {
  double last = -1, last_bound = -std::numeric_limits<double>::infinity();
  double inf = -1, count = -1;
  bool sum = false;
};

class Parser {
 public:
  absl::Status Line(absl::string_view line) {
    if (line.empty()) return absl::InvalidArgumentError("empty line");
    return line[0] == '#' ? Comment(line) : Sample(line);
  }

  absl::StatusOr<ParsedExposition> Finish() {
    if (absl::Status s = EndFamily(); !s.ok()) return s;
    return std::move(out_);
  }

 private:
  absl::Status Comment(absl::string_view line) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 3));
    if (words.size() < 4 || words[3].empty()) return absl::InvalidArgumentError("short comment");
    const std::string name(words[2]);
    if (words[1] == "HELP") {
      if (absl::Status s = EndFamily(); !s.ok()) return s;
      if (!ValidName(name, true)) return absl::InvalidArgumentError("family name");
      if (out_.types.contains(name)) return absl::InvalidArgumentError("family in two pieces");
      family_ = name;
      return absl::OkStatus();
    }
    if (words[1] != "TYPE" || name != family_ || !type_.empty()) {
      return absl::InvalidArgumentError("TYPE must follow its HELP");
    }
    type_ = std::string(words[3]);
    if (type_ != "counter" && type_ != "gauge" && type_ != "histogram" && type_ != "summary") {
      return absl::InvalidArgumentError("type");
    }
    out_.types[family_] = type_;
    return absl::OkStatus();
  }

  absl::Status Sample(absl::string_view line) {
    if (type_.empty()) return absl::InvalidArgumentError("sample before TYPE");
    const size_t end = line.find_first_of("{ ");
    if (end == absl::string_view::npos) return absl::InvalidArgumentError("no value");
    const absl::string_view name = line.substr(0, end);
    absl::string_view rest = line.substr(end);
    LabelMap labels;
    if (rest[0] == '{') {
      if (absl::Status s = ReadLabels(rest, labels); !s.ok()) return s;
    }
    if (!absl::ConsumePrefix(&rest, " ")) return absl::InvalidArgumentError("no space");
    double value;
    if (absl::StrContains(rest, ' ') || !absl::SimpleAtod(rest, &value)) {
      return absl::InvalidArgumentError("value");
    }
    if (type_ != "gauge" && (std::isnan(value) || value < 0)) {
      return absl::InvalidArgumentError("a count below zero");
    }
    if (!out_.samples.emplace(Key(name, labels), value).second) {
      return absl::InvalidArgumentError("sample twice");
    }
    ++samples_;
    if (type_ == "histogram") return HistogramSample(name, labels, value);
    if (type_ == "summary") return absl::OkStatus();
    return name == family_ ? absl::OkStatus() : absl::InvalidArgumentError("not of this family");
  }

  absl::Status HistogramSample(absl::string_view name, LabelMap labels, double value) {
    if (!absl::ConsumePrefix(&name, family_)) {
      return absl::InvalidArgumentError("not of this family");
    }
    const std::string le = labels.contains("le") ? labels["le"] : "";
    labels.erase("le");
    OneHistogram& h = histograms_[Key("", labels)];
    if (name == "_count") {
      h.count = value;
    } else if (name == "_sum") {
      h.sum = true;
    } else if (name == "_bucket") {
      double bound;
      if (!absl::SimpleAtod(le, &bound)) return absl::InvalidArgumentError("le");
      if (bound <= h.last_bound) return absl::InvalidArgumentError("bounds must ascend");
      if (value < h.last) return absl::InvalidArgumentError("buckets must not shrink");
      h.last = value;
      h.last_bound = bound;
      if (std::isinf(bound)) h.inf = value;
    } else {
      return absl::InvalidArgumentError("not of this family");
    }
    return absl::OkStatus();
  }

  absl::Status EndFamily() {
    if (!family_.empty() && (type_.empty() || samples_ == 0)) {
      return absl::InvalidArgumentError(family_ + " has no samples");
    }
    for (const auto& [labels, h] : histograms_) {
      if (!h.sum || h.inf < 0 || h.inf != h.count) {
        return absl::InvalidArgumentError(family_ + labels + " is not whole");
      }
    }
    histograms_.clear();
    family_.clear();
    type_.clear();
    samples_ = 0;
    return absl::OkStatus();
  }

  ParsedExposition out_;
  std::string family_, type_;
  int samples_ = 0;
  std::map<std::string, OneHistogram> histograms_;
};

}  // namespace

absl::StatusOr<ParsedExposition> ParseExposition(absl::string_view text) {
  if (!absl::ConsumeSuffix(&text, "\n")) {
    return absl::InvalidArgumentError("the last line must end");
  }
  Parser parser;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::Status s = parser.Line(line); !s.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(s.message(), " in: ", line));
    }
  }
  return parser.Finish();
}

}  // namespace belfry::telemetry
