// belfry bench NAME
#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "server/cli/exit_code.h"
#include "server/cli/sample_flags.h"
#include "server/cli/table.h"
#include "server/cli/verbs.h"

namespace belfry::cli {
namespace {

// Connections that the callers share: one alone is a bottleneck of the client.
constexpr int64_t kMaxConnections = 8;

struct Tally {
  std::vector<double> seconds;  // of successful requests
  std::map<std::string, int64_t> errors;
};

class Bench final : public Verb {
 public:
  std::string name() const override { return "bench"; }
  std::string summary() const override { return "ask a model as fast as it answers"; }
  std::string operands() const override { return "NAME"; }
  std::string details() const override {
    return "A closed loop: each of --concurrency callers asks again when it has its answer, so\n"
           "what is measured is the time at that load, not at a given rate. All send the\n"
           "same request.\n"
           "JSON: model, concurrency, rows, seconds, requests, errors, requests_per_second,\n"
           "rows_per_second, p50_seconds, p90_seconds, p99_seconds, max_seconds.\n"
           "Ends with 1 if a request failed.\n";
  }
  size_t min_operands() const override { return 1; }
  size_t max_operands() const override { return 1; }
  bool has_json() const override { return true; }
  void Bind(FlagSet* flags) override {
    flags->Add("Flags", "concurrency", IntValue(&concurrency_, 1, 4096), "Callers.");
    flags->Add("Flags", "seconds", DurationValue(&duration_), "How long.");
    sample_.Bind(flags);
  }

  absl::Status Run(const std::vector<std::string>& operands) override {
    const auto request = sample_.Request(&client(), operands[0], /*make_up=*/true);
    if (!request.ok()) return request.status();
    // Once for nothing: connected, and the error shown as it came.
    if (const auto first = client().Infer(*request); !first.ok()) return first.status();
    Progress(absl::StrCat(operands[0], ", ", concurrency_, " callers, ",
                          Seconds(absl::ToDoubleSeconds(duration_))));
    double elapsed = 0;
    Tally tally = Drive(*request, &elapsed);
    Report(operands[0], tally, elapsed);
    if (tally.errors.empty()) return absl::OkStatus();
    return absl::UnknownError("requests failed");
  }

 private:
  Tally Drive(const inference::ModelInferRequest& request, double* elapsed) const {
    std::vector<std::unique_ptr<Client>> clients;
    for (int64_t i = 0; i < std::min(concurrency_, kMaxConnections); ++i) {
      clients.push_back(std::make_unique<Client>(connection));
    }
    std::vector<Tally> tallies(static_cast<size_t>(concurrency_));
    std::vector<std::thread> callers;
    const absl::Time begin = absl::Now();
    const absl::Time end = begin + duration_;
    for (size_t i = 0; i < tallies.size(); ++i) {
      callers.emplace_back([&, i] {
        Loop(clients[i % clients.size()].get(), request, end, &tallies[i]);
      });
    }
    for (std::thread& caller : callers) caller.join();
    *elapsed = absl::ToDoubleSeconds(absl::Now() - begin);
    return Sum(tallies);
  }

  static void Loop(Client* client, const inference::ModelInferRequest& request, absl::Time end,
                   Tally* tally) {
    for (absl::Time now = absl::Now(); now < end;) {
      const auto response = client->Infer(request);
      const absl::Time then = absl::Now();
      if (response.ok()) {
        tally->seconds.push_back(absl::ToDoubleSeconds(then - now));
      } else {
        ++tally->errors[absl::StrCat(absl::StatusCodeToString(response.status().code()), ": ",
                                     response.status().message())];
        // Nobody there: no use in asking a thousand times a second.
        if (ExitCodeOf(response.status()) == kUnreachable) absl::SleepFor(absl::Milliseconds(100));
      }
      now = absl::Now();
    }
  }

  static Tally Sum(std::vector<Tally>& tallies) {
    Tally sum;
    for (Tally& tally : tallies) {
      sum.seconds.insert(sum.seconds.end(), tally.seconds.begin(), tally.seconds.end());
      for (const auto& [error, count] : tally.errors) sum.errors[error] += count;
    }
    std::sort(sum.seconds.begin(), sum.seconds.end());
    return sum;
  }

  void Report(const std::string& model, const Tally& tally, double elapsed) const {
    const auto quantile = [&](double q) {
      if (tally.seconds.empty()) return 0.0;
      const auto last = static_cast<double>(tally.seconds.size() - 1);
      return tally.seconds[static_cast<size_t>(q * last + 0.5)];
    };
    const auto requests = static_cast<int64_t>(tally.seconds.size());
    const double rate = static_cast<double>(requests) / elapsed;
    const bool made_up = sample_.inputs.empty();
    int64_t failed = 0;
    for (const auto& [error, count] : tally.errors) {
      failed += count;
      Progress(absl::StrCat(count, " x ", error));
    }
    if (json) {
      PrintJson({{"model", model},
                 {"concurrency", concurrency_},
                 {"rows", made_up ? nlohmann::ordered_json(sample_.rows) : nullptr},
                 {"seconds", elapsed},
                 {"requests", requests},
                 {"errors", failed},
                 {"requests_per_second", rate},
                 {"rows_per_second",
                  made_up ? nlohmann::ordered_json(rate * static_cast<double>(sample_.rows))
                          : nullptr},
                 {"p50_seconds", quantile(0.5)},
                 {"p90_seconds", quantile(0.9)},
                 {"p99_seconds", quantile(0.99)},
                 {"max_seconds", quantile(1)}});
      return;
    }
    constexpr auto kRight = Table::Align::kRight;
    Table table({{"REQUESTS", kRight}, {"ERRORS", kRight}, {"PER SECOND", kRight},
                 {"ROWS/S", kRight}, {"P50", kRight}, {"P90", kRight}, {"P99", kRight},
                 {"MAX", kRight}});
    table.Add({absl::StrCat(requests), absl::StrCat(failed), absl::StrFormat("%.1f", rate),
               made_up ? absl::StrFormat("%.1f", rate * static_cast<double>(sample_.rows)) : "",
               Seconds(quantile(0.5)), Seconds(quantile(0.9)), Seconds(quantile(0.99)),
               Seconds(quantile(1))});
    Print(table.ToString());
  }

  SampleFlags sample_;
  int64_t concurrency_ = 8;
  absl::Duration duration_ = absl::Seconds(5);
};

}  // namespace

std::unique_ptr<Verb> MakeBench() { return std::make_unique<Bench>(); }

}  // namespace belfry::cli
