// A card whose driver runs in a belfry-card process.
#ifndef BELFRY_SERVER_CARDS_PROCESS_CARD_H_
#define BELFRY_SERVER_CARDS_PROCESS_CARD_H_

#include <atomic>
#include <memory>
#include <string>

#include "server/cards/card.h"
#include "server/cards/completion_loop.h"
#include "server/cards/residents.h"
#include "server/cards/supervisor.h"

namespace belfry::cards {

// Ties together the parts: the supervisor (the process), the completion loop
// (answers, the listener) and the Link that the hot path goes through. Thread-safe.
class ProcessCard final : public Card {
 public:
  static absl::StatusOr<std::unique_ptr<ProcessCard>> Start(int index, CardConfig config,
                                                            CardListener* listener,
                                                            const Clock* clock);
  ~ProcessCard() override;

  // See Supervisor.
  void RequestStop(absl::Duration grace) { supervisor_->RequestStop(grace); }
  void Join() { supervisor_->Join(); }
  bool WaitStarted(absl::Duration timeout) { return supervisor_->WaitStarted(timeout); }

  int index() const override { return index_; }
  const std::string& name() const override { return config_.name; }
  const std::string& driver() const override { return config_.driver; }
  CardState state() const override { return state_.load(std::memory_order_acquire); }
  Slot TryAcquireSlot() override;
  int slots_in_use() const override;
  size_t input_capacity() const override { return config_.pool.arena_bytes; }
  size_t output_capacity() const override { return config_.pool.arena_bytes; }
  void Submit(Slot slot, const BatchCall& call) override;
  void RequestTurn() override { loop_->RequestTurn(); }
  absl::Status Load(const ExecutableSpec& spec) override;
  absl::Status Warm(ExecutableId id, std::span<const WarmShape> shapes) override;
  absl::Status Unload(ExecutableId id) override;
  CardInfo Info() const override;

 private:
  ProcessCard(int index, CardConfig config, const Clock* clock)
      : index_(index), config_(std::move(config)), clock_(clock) {}

  void ReleaseSlot(const std::shared_ptr<void>& link, uint32_t index) override;
  std::span<uint8_t> SlotInput(const std::shared_ptr<void>& link, uint32_t index) const override;
  std::span<const uint8_t> SlotOutput(const std::shared_ptr<void>& link,
                                      uint32_t index) const override;
  // Prefixes the card's name.
  absl::Status Named(const absl::Status& status) const;

  const int index_;
  const CardConfig config_;
  const Clock* const clock_;
  std::atomic<CardState> state_{CardState::kStarting};
  Residents residents_;
  // In this order: the supervisor uses the loop, so it goes first.
  std::unique_ptr<CompletionLoop> loop_;
  std::unique_ptr<Supervisor> supervisor_;
};

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_PROCESS_CARD_H_
