// belfry cards
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/cli/proto_json.h"
#include "server/cli/table.h"
#include "server/cli/verbs.h"

namespace belfry::cli {
namespace {

class Cards final : public Verb {
 public:
  std::string name() const override { return "cards"; }
  std::string summary() const override { return "list cards: state, models, memory, restarts"; }
  std::string operands() const override { return ""; }
  std::string details() const override {
    return "JSON: a list of CardInfo of proto/registry.proto: name, driver, state, pid, restarts,\n"
           "last_error, memory_used, memory_total, busy_seconds, batches, cycles, residents,\n"
           "cores.\n";
  }
  size_t min_operands() const override { return 0; }
  size_t max_operands() const override { return 0; }
  bool has_json() const override { return true; }

  absl::Status Run(const std::vector<std::string>&) override {
    const auto response = client().Cards();
    if (!response.ok()) return response.status();
    if (json) {
      PrintJson(ProtoToJson(*response)["cards"]);
    } else {
      Print(TableOf(*response));
    }
    return absl::OkStatus();
  }

 private:
  static std::string StateOf(const v1::CardInfo& card) {
    const std::string prefix = "CARD_STATE_";
    const std::string name = v1::CardState_Name(card.state());
    return name.starts_with(prefix) ? name.substr(prefix.size()) : "?";
  }

  static std::string TableOf(const v1::CardsResponse& response) {
    constexpr auto kRight = Table::Align::kRight;
    Table table({{"CARD"}, {"STATE"}, {"PID", kRight}, {"MODELS"}, {"MEMORY", kRight},
                 {"BATCHES", kRight}, {"BUSY", kRight}, {"RESTARTS", kRight}, {"LAST ERROR"}});
    for (const auto& card : response.cards()) {
      table.Add({card.name(), StateOf(card), card.pid() == 0 ? "" : absl::StrCat(card.pid()),
                 absl::StrJoin(card.residents(), ","), MemoryOf(card), absl::StrCat(card.batches()),
                 absl::StrFormat("%.2f s", card.busy_seconds()), absl::StrCat(card.restarts()),
                 card.last_error()});
    }
    return table.ToString();
  }

  static std::string MemoryOf(const v1::CardInfo& card) {
    if (card.memory_total() == 0) return Bytes(card.memory_used());
    return absl::StrCat(Bytes(card.memory_used()), " of ", Bytes(card.memory_total()));
  }
};

}  // namespace

std::unique_ptr<Verb> MakeCards() { return std::make_unique<Cards>(); }

}  // namespace belfry::cli
