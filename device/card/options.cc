#include "device/card/options.h"

#include <sched.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "device/channel/json.h"

namespace belfry::card {

const char kHelp[] =
    R"(belfry-card: owns one card of this host and runs models on it for belfryd.

  belfry-card --driver NAME --describe
      prints what an artifact must have been compiled for, as JSON

  belfry-card --driver NAME --channel-fd N --control-fd N [flags]
      serves; belfryd starts it so (device/channel/README.md)

  --driver NAME        cpu, spyre-sim, ...: loads libbelfry_driver_NAME.so
  --driver-dir DIR     where it lies; default: beside this program, ../lib, ../lib/belfry
  --driver-json JSON   options of the driver, an object; default {}
  --index N            number of the card among those of its driver; default 0
  --threads N          host threads that one execution may use; default 1
  --cores LIST         host cores to run on, such as 0,1,4-7; default: all allowed ones
  --memory BYTES       memory budget of the card; default 0: the driver decides
  --spin-us N          microseconds to wait busily for work before sleeping; default 0
  --channel-fd N       file descriptor of the shared memory
  --control-fd N       file descriptor of the control socket
  --describe, --help

Exit status: 0 belfryd is gone or asked to stop; 1 the card cannot be opened; 2 usage.
)";

namespace {

constexpr size_t kMaxDriverJson = 64 << 10;

absl::Status Wrong(const std::string& flag, const std::string& value, const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " is '", value, "', expected ", expected));
}

absl::Status ReadInt(const std::string& flag, const std::string& text, int min, int max,
                     int* out) {
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < min || value > max) {
    return Wrong(flag, text, absl::StrCat("an integer from ", min, " to ", max));
  }
  *out = value;
  return absl::OkStatus();
}

absl::Status ReadDriver(const std::string& flag, const std::string& text, std::string* out) {
  const bool good = !text.empty() && text.size() <= 64 &&
                    std::all_of(text.begin(), text.end(), [](unsigned char c) {
                      return absl::ascii_isalnum(c) || c == '-' || c == '_';
                    });
  if (!good) return Wrong(flag, text, "letters, digits, '-' and '_'");
  *out = text;
  return absl::OkStatus();
}

// "0,1,4-7"
absl::Status ReadCores(const std::string& flag, const std::string& text, std::vector<int>* out) {
  out->clear();
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::vector<std::string> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last) ||
        first < 0 || last < first || last >= CPU_SETSIZE) {
      return Wrong(flag, text, "core numbers such as 0,1,4-7");
    }
    for (int core = first; core <= last; ++core) out->push_back(core);
  }
  return absl::OkStatus();
}

absl::Status ReadJson(const std::string& flag, const std::string& text, std::string* out) {
  const auto parsed = ParseJsonObject(text, kMaxDriverJson);
  if (!parsed.ok()) {
    return Wrong(flag, text, absl::StrCat("an object: ", parsed.status().message()));
  }
  *out = text;
  return absl::OkStatus();
}

absl::Status Apply(const std::string& flag, const std::string& value, Options* o) {
  constexpr int kMaxInt = std::numeric_limits<int>::max();
  if (flag == "--driver") return ReadDriver(flag, value, &o->driver);
  if (flag == "--driver-json") return ReadJson(flag, value, &o->driver_json);
  if (flag == "--index") return ReadInt(flag, value, 0, kMaxInt, &o->index);
  if (flag == "--threads") return ReadInt(flag, value, 1, 4096, &o->threads);
  if (flag == "--channel-fd") return ReadInt(flag, value, 0, kMaxInt, &o->channel_fd);
  if (flag == "--control-fd") return ReadInt(flag, value, 0, kMaxInt, &o->control_fd);
  if (flag == "--cores") return ReadCores(flag, value, &o->cores);
  if (flag == "--driver-dir") {
    o->driver_dir = value;
    return absl::OkStatus();
  }
  if (flag == "--memory") {
    if (!absl::SimpleAtoi(value, &o->memory_bytes)) return Wrong(flag, value, "a number of bytes");
    return absl::OkStatus();
  }
  if (flag == "--spin-us") {
    int us = 0;
    if (auto s = ReadInt(flag, value, 0, 1'000'000, &us); !s.ok()) return s;
    o->spin = absl::Microseconds(us);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown flag '", flag, "'; see --help"));
}

absl::Status CheckComplete(const Options& o) {
  if (o.mode == Options::Mode::kHelp) return absl::OkStatus();
  if (o.driver.empty()) return absl::InvalidArgumentError("--driver is missing; see --help");
  if (o.mode == Options::Mode::kServe && (o.channel_fd < 0 || o.control_fd < 0)) {
    return absl::InvalidArgumentError(
        "--channel-fd or --control-fd is missing: belfryd starts this program; see --help");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args) {
  Options options;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--help" || args[i] == "-h") {
      options.mode = Options::Mode::kHelp;
      return options;
    }
    if (args[i] == "--describe") {
      options.mode = Options::Mode::kDescribe;
      continue;
    }
    if (!absl::StartsWith(args[i], "--")) {
      return absl::InvalidArgumentError(
          absl::StrCat("unexpected argument '", args[i], "'; see --help"));
    }
    std::string flag = args[i];
    std::optional<std::string> value;
    if (const size_t equals = flag.find('='); equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    } else if (i + 1 < args.size()) {
      value = args[++i];
    }
    if (!value) return absl::InvalidArgumentError(absl::StrCat(flag, " has no value; see --help"));
    if (auto s = Apply(flag, *value, &options); !s.ok()) return s;
  }
  if (auto s = CheckComplete(options); !s.ok()) return s;
  return options;
}

}  // namespace belfry::card
