// A card for tests that need one to misbehave on demand, at a moment that a
// process cannot be made to choose. Loads, warms and unloads as it is told; runs
// no batches.
#ifndef BELFRY_SERVER_SERVING_FAKE_CARD_H_
#define BELFRY_SERVER_SERVING_FAKE_CARD_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/cards/pool.h"

namespace belfry::serving {

// Thread-safe.
class FakeCard : public cards::Card {
 public:
  FakeCard(int index, std::string name, std::string driver)
      : index_(index), name_(std::move(name)), driver_(std::move(driver)) {}

  // What the next and all later calls answer; they may block.
  std::function<absl::Status(const cards::ExecutableSpec&)> on_load;
  std::function<absl::Status(const cards::WarmShape&)> on_warm;
  std::atomic<cards::CardState> current{cards::CardState::kReady};

  std::vector<std::string> events() const {  // "load m/1", "warm batch=8", "unload 3"
    absl::MutexLock lock(&mutex_);
    return events_;
  }

  int index() const override { return index_; }
  const std::string& name() const override { return name_; }
  const std::string& driver() const override { return driver_; }
  cards::CardState state() const override { return current.load(); }
  cards::Slot TryAcquireSlot() override { return {}; }
  int slots_in_use() const override { return 0; }
  size_t input_capacity() const override { return 1 << 20; }
  size_t output_capacity() const override { return 1 << 20; }
  void Submit(cards::Slot, const cards::BatchCall&) override {}
  void RequestTurn() override {}

  absl::Status Load(const cards::ExecutableSpec& spec) override {
    Note("load " + spec.label);
    return on_load ? on_load(spec) : absl::OkStatus();
  }
  absl::Status Warm(cards::ExecutableId, std::span<const cards::WarmShape> shapes) override {
    for (const auto& shape : shapes) {
      std::string text = "warm";
      for (const auto& [symbol, size] : shape) text += " " + symbol + "=" + std::to_string(size);
      Note(text);
      if (!on_warm) continue;
      if (auto status = on_warm(shape); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status Unload(cards::ExecutableId id) override {
    Note("unload " + std::to_string(id));
    return absl::OkStatus();
  }
  cards::CardInfo Info() const override {
    cards::CardInfo info;
    info.name = name_;
    info.driver = driver_;
    info.state = state();
    return info;
  }

 protected:
  void ReleaseSlot(const std::shared_ptr<void>&, uint32_t) override {}
  std::span<uint8_t> SlotInput(const std::shared_ptr<void>&, uint32_t) const override { return {}; }
  std::span<const uint8_t> SlotOutput(const std::shared_ptr<void>&, uint32_t) const override {
    return {};
  }

 private:
  void Note(std::string event) {
    absl::MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
  }

  const int index_;
  const std::string name_;
  const std::string driver_;
  mutable absl::Mutex mutex_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
};

class FakePool : public cards::CardPool {
 public:
  explicit FakePool(int count) : FakePool(std::vector<std::string>(count, "cpu")) {}
  explicit FakePool(const std::vector<std::string>& drivers) {
    std::map<std::string, int> of_driver;
    for (const std::string& driver : drivers) {
      owned_.push_back(std::make_unique<FakeCard>(
          static_cast<int>(owned_.size()), driver + ":" + std::to_string(of_driver[driver]++),
          driver));
      cards_.push_back(owned_.back().get());
    }
  }
  FakeCard& card(int index) { return *owned_[index]; }
  const std::vector<cards::Card*>& cards() const override { return cards_; }
  bool WaitStarted(absl::Duration) override { return true; }
  void Stop(absl::Duration) override {}

 private:
  std::vector<std::unique_ptr<FakeCard>> owned_;
  std::vector<cards::Card*> cards_;
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_FAKE_CARD_H_
