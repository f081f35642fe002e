// How the command ends. Documented in --help; scripts rely on it.
#ifndef BELFRY_SERVER_CLI_EXIT_CODE_H_
#define BELFRY_SERVER_CLI_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"

namespace belfry::cli {

enum ExitCode {
  kOk = 0,
  kRefused = 1,      // the server (or the compiler) said no
  kUsage = 2,        // wrong verb, flag or value
  kUnreachable = 3,  // nobody answers at the address
  kTimedOut = 4,     // no answer within --timeout
  kLocal = 5,        // a file of this host cannot be read or written
};

// Errors of this side carry where they come from, so that a server's
// INVALID_ARGUMENT and a wrong flag do not end alike.
absl::Status UsageError(const std::string& message);
absl::Status LocalError(const std::string& message);
absl::Status UnreachableError(const std::string& message);

int ExitCodeOf(const absl::Status& status);

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_EXIT_CODE_H_
