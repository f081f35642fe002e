// belfry drain
#include "absl/strings/str_cat.h"
#include "server/cli/proto_json.h"
#include "server/cli/verbs.h"

namespace belfry::cli {
namespace {

class Drain final : public Verb {
 public:
  std::string name() const override { return "drain"; }
  std::string summary() const override { return "refuse new requests, finish accepted ones"; }
  std::string operands() const override { return ""; }
  std::string details() const override {
    return "Cannot be undone but by starting the server again. Ends with 4 if requests are still\n"
           "in flight when the time is over.\n"
           "JSON: in_flight, the number of requests not yet finished.\n";
  }
  size_t min_operands() const override { return 0; }
  size_t max_operands() const override { return 0; }
  bool has_json() const override { return true; }
  absl::Duration default_timeout() const override { return absl::Minutes(1); }
  void Bind(FlagSet* flags) override {
    flags->Add("Flags", "no-wait", SwitchValue(&no_wait_), "Do not wait for accepted requests.");
    flags->Add("Flags", "exit", SwitchValue(&exit_), "End the server once it is drained.");
  }

  absl::Status Run(const std::vector<std::string>&) override {
    v1::DrainRequest request;
    request.set_wait(!no_wait_);
    request.set_exit(exit_);
    const auto response = client().Drain(request);
    if (!response.ok()) return response.status();
    if (json) {
      PrintJson(ProtoToJson(*response));
    } else {
      Print(absl::StrCat(response->in_flight() == 0 ? "drained" : "draining", ", ",
                         response->in_flight(), " requests in flight\n"));
    }
    if (!no_wait_ && response->in_flight() > 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(response->in_flight(), " requests are still in flight"));
    }
    return absl::OkStatus();
  }

 private:
  bool no_wait_ = false;
  bool exit_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeDrain() { return std::make_unique<Drain>(); }

}  // namespace belfry::cli
