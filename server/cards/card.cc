#include "server/cards/card.h"

#include <utility>

namespace belfry::cards {

std::string_view CardStateName(CardState state) {
  switch (state) {
    case CardState::kStarting:
      return "STARTING";
    case CardState::kReady:
      return "READY";
    case CardState::kRestarting:
      return "RESTARTING";
    case CardState::kStopped:
      return "STOPPED";
  }
  return "UNKNOWN";
}

Slot::Slot(Slot&& other) noexcept
    : link_(std::move(other.link_)),
      card_(std::exchange(other.card_, nullptr)),
      index_(other.index_) {}

Slot& Slot::operator=(Slot&& other) noexcept {
  if (this == &other) return *this;
  if (link_ != nullptr) card_->ReleaseSlot(link_, index_);
  link_ = std::move(other.link_);
  card_ = std::exchange(other.card_, nullptr);
  index_ = other.index_;
  return *this;
}

Slot::~Slot() {
  if (link_ != nullptr) card_->ReleaseSlot(link_, index_);
}

std::span<uint8_t> Slot::input() const {
  return link_ == nullptr ? std::span<uint8_t>() : card_->SlotInput(link_, index_);
}

std::span<const uint8_t> Slot::output() const {
  return link_ == nullptr ? std::span<const uint8_t>() : card_->SlotOutput(link_, index_);
}

Slot Card::MakeSlot(std::shared_ptr<void> link, Card* card, uint32_t index) {
  Slot slot;
  slot.link_ = std::move(link);
  slot.card_ = card;
  slot.index_ = index;
  return slot;
}

std::shared_ptr<void> Card::TakeSlot(Slot slot, uint32_t* index) {
  *index = slot.index_;
  slot.card_ = nullptr;
  return std::exchange(slot.link_, nullptr);
}

}  // namespace belfry::cards
