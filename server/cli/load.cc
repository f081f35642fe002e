// belfry load PATH|NAME
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/cli/exit_code.h"
#include "server/cli/proto_json.h"
#include "server/cli/table.h"
#include "server/cli/verbs.h"
#include "server/cli/version_text.h"

namespace belfry::cli {
namespace {

// How often the state is asked for. A look costs the server next to nothing.
constexpr absl::Duration kLook = absl::Milliseconds(200);
// A stage that goes on is told again now and then.
constexpr absl::Duration kRemind = absl::Seconds(10);

class Load final : public Verb {
 public:
  std::string name() const override { return "load"; }
  std::string summary() const override { return "take a model into service"; }
  std::string operands() const override { return "PATH|NAME"; }
  std::string details() const override {
    return "PATH is a .pt2 file, a folder that holds model.pt2, or a folder of such folders named\n"
           "by version; the server reads it, so it must lie below one of its load roots. An\n"
           "operand without '/' and without the ending .pt2 is a NAME in the server's model folder.\n"
           "What served before goes on serving until the new version is READY, or if it fails.\n"
           "JSON: a VersionSummary (see 'belfry models').\n";
  }
  size_t min_operands() const override { return 1; }
  size_t max_operands() const override { return 1; }
  bool has_json() const override { return true; }
  absl::Duration default_timeout() const override { return absl::Hours(1); }
  void Bind(FlagSet* flags) override {
    flags->Add("Flags", "name", StringValue(&name_, "NAME"),
               "Name of the model. Default: from the path, NAME/VERSION/model.pt2.");
    flags->Add("Flags", "version", StringValue(&version_, "N"),
               "Its version. Default: from the path, else one more than the highest.");
    flags->Add("Flags", "wait", SwitchValue(&wait_),
               "Tell the progress and end when the version is READY or FAILED. The default.");
    flags->Add("Flags", "no-wait", SwitchValue(&no_wait_),
               "End when the server has accepted the load.");
  }

  absl::Status Run(const std::vector<std::string>& operands) override {
    const auto request = RequestFor(operands[0]);
    if (!request.ok()) return request.status();
    auto response = client().Load(*request);
    if (!response.ok()) return response.status();
    v1::VersionSummary version = response->version();
    if (wait_ && !no_wait_) {
      if (auto status = Follow(&version); !status.ok()) return status;
    }
    if (json) {
      PrintJson(ProtoToJson(version));
    } else {
      Print(absl::StrCat(version.name(), " version ", version.version(), " is ",
                         StateName(version.state()), "\n"));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<v1::LoadRequest> RequestFor(const std::string& operand) const {
    v1::LoadRequest request;
    const auto version = ParseVersion(version_);
    if (!version.ok()) return version.status();
    request.set_version(*version);
    request.set_name(name_);
    const bool is_path = operand.find('/') != std::string::npos || operand.ends_with(".pt2");
    if (is_path) {
      // The server's working folder is its own.
      std::error_code error;
      const auto path = std::filesystem::absolute(operand, error);
      request.set_path(error ? operand : path.lexically_normal().string());
    } else if (!name_.empty()) {
      return UsageError(absl::StrCat("--name goes with a path; '", operand,
                                     "' is the name of a model (a path has a '/')"));
    } else {
      request.set_name(operand);
    }
    return request;
  }

  // Until the version is READY; an error if it ends otherwise.
  absl::Status Follow(v1::VersionSummary* version) {
    const absl::Time deadline = absl::Now() + connection.timeout;
    std::string told;
    absl::Time told_at;
    while (true) {
      Tell(*version, &told, &told_at);
      switch (version->state()) {
        case v1::VERSION_STATE_READY:
          return absl::OkStatus();
        case v1::VERSION_STATE_FAILED:
        case v1::VERSION_STATE_UNLOADED:
        case v1::VERSION_STATE_DRAINING:
          return absl::FailedPreconditionError(
              absl::StrCat(version->name(), " version ", version->version(), " is ",
                           StateName(version->state()), version->reason().empty() ? "" : ": ",
                           version->reason()));
        default:
          break;
      }
      if (absl::Now() > deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat(version->name(), " version ", version->version(), " is still ",
                         StateName(version->state()), " after ",
                         Seconds(absl::ToDoubleSeconds(connection.timeout)),
                         "; the load goes on"));
      }
      absl::SleepFor(kLook);
      if (auto status = Look(version); !status.ok()) return status;
    }
  }

  absl::Status Look(v1::VersionSummary* version) {
    v1::ListRequest request;
    request.set_name(version->name());
    const auto response = client().List(request);
    if (!response.ok()) return response.status();
    for (const auto& other : response->versions()) {
      if (other.version() == version->version()) {
        *version = other;
        return absl::OkStatus();
      }
    }
    return absl::NotFoundError("the version is gone");
  }

  // One line for each new stage.
  void Tell(const v1::VersionSummary& version, std::string* told, absl::Time* told_at) const {
    const auto& progress = version.progress();
    const std::string stage =
        absl::StrCat(StateName(version.state()), " ", progress.target(), " ", progress.stage());
    if (stage == *told && absl::Now() - *told_at < kRemind) return;
    *told = stage;
    *told_at = absl::Now();
    Progress(absl::StrCat(version.name(), "/", version.version(), "  ", StateName(version.state()),
                          progress.stage().empty() ? "" : "  ", progress.stage(), "  ",
                          Seconds(absl::ToDoubleSeconds(*told_at - begin_)), " so far"));
  }

  std::string name_, version_;
  bool wait_ = true;
  bool no_wait_ = false;
  // Our own clock: a stage that has nothing to say does not tell its time.
  const absl::Time begin_ = absl::Now();
};

}  // namespace

std::unique_ptr<Verb> MakeLoad() { return std::make_unique<Load>(); }

}  // namespace belfry::cli
