#include "server/cli/exit_code.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace belfry::cli {
namespace {

constexpr char kOrigin[] = "belfry.cli/exit_code";

absl::Status Marked(absl::StatusCode code, const std::string& message, ExitCode exit) {
  absl::Status status(code, message);
  status.SetPayload(kOrigin, absl::Cord(absl::StrCat(static_cast<int>(exit))));
  return status;
}

}  // namespace

absl::Status UsageError(const std::string& message) {
  return Marked(absl::StatusCode::kInvalidArgument, message, kUsage);
}

absl::Status LocalError(const std::string& message) {
  return Marked(absl::StatusCode::kFailedPrecondition, message, kLocal);
}

absl::Status UnreachableError(const std::string& message) {
  return Marked(absl::StatusCode::kUnavailable, message, kUnreachable);
}

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kOk;
  if (const auto payload = status.GetPayload(kOrigin); payload.has_value()) {
    int code = kRefused;
    return absl::SimpleAtoi(std::string(*payload), &code) ? code : kRefused;
  }
  return absl::IsDeadlineExceeded(status) ? kTimedOut : kRefused;
}

}  // namespace belfry::cli
