#include "server/cards/pool.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/base/clock.h"
#include "server/cards/cores.h"
#include "server/cards/process_card.h"

namespace belfry::cards {
namespace {

class ProcessPool final : public CardPool {
 public:
  explicit ProcessPool(std::vector<std::unique_ptr<ProcessCard>> cards) : owned_(std::move(cards)) {
    for (const auto& card : owned_) cards_.push_back(card.get());
  }
  ~ProcessPool() override { Stop(absl::ZeroDuration()); }

  const std::vector<Card*>& cards() const override { return cards_; }

  bool WaitStarted(absl::Duration timeout) override {
    const absl::Duration until = absl::Nanoseconds(Clock::Real().Now()) + timeout;
    for (const auto& card : owned_) {
      const absl::Duration left = until - absl::Nanoseconds(Clock::Real().Now());
      if (!card->WaitStarted(std::max(left, absl::ZeroDuration()))) return false;
    }
    return true;
  }

  void Stop(absl::Duration grace) override {
    // All at once, then all awaited. A second caller gets past this and shortens
    // the grace time of the first before it waits for it.
    for (const auto& card : owned_) card->RequestStop(grace);
    absl::MutexLock lock(&join_mu_);
    for (const auto& card : owned_) card->Join();
  }

 private:
  const std::vector<std::unique_ptr<ProcessCard>> owned_;
  std::vector<Card*> cards_;
  absl::Mutex join_mu_;
};

absl::Status Check(const PoolOptions& options) {
  if (options.groups.empty()) {
    return absl::InvalidArgumentError("cards: none given, at least one card is expected");
  }
  for (const CardGroup& group : options.groups) {
    if (group.count < 1) {
      return absl::InvalidArgumentError(absl::StrCat("cards: ", group.count, " cards of driver '",
                                                     group.driver, "', expected at least 1"));
    }
  }
  if (options.cores_per_card < 1) {
    return absl::InvalidArgumentError(absl::StrCat("cards: ", options.cores_per_card,
                                                   " cores per card, expected at least 1"));
  }
  if (access(options.card_binary.c_str(), X_OK) != 0) {
    const int error = errno;
    return absl::ErrnoToStatus(
        error, absl::StrCat("cards: '", options.card_binary, "' is not an executable file"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CardPool>> CardPool::Start(PoolOptions options,
                                                          CardListener* listener) {
  if (absl::Status status = Check(options); !status.ok()) return status;
  int count = 0;
  for (const CardGroup& group : options.groups) count += group.count;
  std::vector<std::vector<int>> cores(count);
  if (options.pin) {
    const auto allowed = AllowedCores();
    if (!allowed.ok()) return allowed.status();
    auto assigned = AssignCores(count, options.cores_per_card, *allowed);
    if (!assigned.ok()) return assigned.status();
    cores = *std::move(assigned);
  }

  std::vector<std::unique_ptr<ProcessCard>> cards;
  for (const CardGroup& group : options.groups) {
    for (int i = 0; i < group.count; ++i) {
      const int index = static_cast<int>(cards.size());
      CardConfig config{absl::StrCat(group.driver, ":", i), group.driver, i, cores[index], options};
      auto card = ProcessCard::Start(index, std::move(config), listener, &Clock::Real());
      if (!card.ok()) return card.status();
      cards.push_back(*std::move(card));
    }
  }
  return std::make_unique<ProcessPool>(std::move(cards));
}

}  // namespace belfry::cards
