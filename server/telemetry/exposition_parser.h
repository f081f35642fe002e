// A strict reader of Prometheus' text format 0.0.4, for tests: it accepts less
// than Prometheus does (HELP and TYPE must precede the samples, a family must be
// in one piece, histograms must be whole).
#ifndef BELFRY_SERVER_TELEMETRY_EXPOSITION_PARSER_H_
#define BELFRY_SERVER_TELEMETRY_EXPOSITION_PARSER_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace belfry::telemetry {

struct ParsedExposition {
  std::map<std::string, std::string> types;  // family -> counter, gauge, histogram
  // 'name{a="b",c="d"}' with labels sorted -> value.
  std::map<std::string, double> samples;
};

// INVALID_ARGUMENT names the line.
absl::StatusOr<ParsedExposition> ParseExposition(absl::string_view text);

}  // namespace belfry::telemetry

#endif  // BELFRY_SERVER_TELEMETRY_EXPOSITION_PARSER_H_
