// What a verb of the command is, and what all verbs share.
#ifndef BELFRY_SERVER_CLI_VERB_H_
#define BELFRY_SERVER_CLI_VERB_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/cli/client.h"
#include "server/main/flags.h"

namespace belfry::cli {

// One run of one verb: flags first (Bind), then Run. Each lives in a file of
// its own and is made by the function in verbs.h.
class Verb {
 public:
  virtual ~Verb() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;   // one line
  virtual std::string operands() const = 0;  // "NAME [VERSION]"
  virtual std::string details() const { return ""; }  // further words for --help

  // Operands that are allowed.
  virtual size_t min_operands() const = 0;
  virtual size_t max_operands() const = 0;

  // Adds the verb's own flags.
  virtual void Bind(FlagSet* flags) {}
  virtual bool talks_to_server() const { return true; }
  virtual bool has_json() const { return false; }
  virtual absl::Duration default_timeout() const { return absl::Seconds(30); }

  // The answer goes to stdout, progress to stderr. OK or an error to be shown;
  // ExitCodeOf makes the exit code.
  virtual absl::Status Run(const std::vector<std::string>& operands) = 0;

  Client::Options connection;  // --server, --admin, --timeout
  bool json = false;           // --json

 protected:
  // Connects nowhere before the first call.
  Client& client() {
    if (client_ == nullptr) client_ = std::make_unique<Client>(connection);
    return *client_;
  }

 private:
  std::unique_ptr<Client> client_;
};

// "3" -> 3, "" -> 0; an error of usage otherwise.
absl::StatusOr<int64_t> ParseVersion(const std::string& text);

void Print(const std::string& text);          // stdout, as it is
void PrintJson(const nlohmann::ordered_json& json);  // stdout, a key a line
void Progress(const std::string& line);       // stderr, a line

// Whole files; errors are LocalError.
absl::StatusOr<std::string> ReadFile(const std::string& path);
absl::Status WriteFile(const std::string& path, const std::string& data);

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_VERB_H_
