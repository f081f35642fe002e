// For the tests of this room: a pool of real belfry-card processes with the
// driver 'fault', and a listener that keeps book.
#ifndef BELFRY_SERVER_CARDS_CARD_HARNESS_H_
#define BELFRY_SERVER_CARDS_CARD_HARNESS_H_

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "device/channel/dtype.h"
#include "device/driver_fault/fault_artifact.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cards/pool.h"

namespace belfry::cards {

// So long the tests wait for something that must happen.
inline constexpr absl::Duration kPatience = absl::Seconds(60);
inline constexpr MonoNs kNoHurry = 60'000'000'000;

// One batch of a test: the tag. Counts its completions.
struct Ticket {
  std::atomic<int> completions{0};
  BatchResult result;
  std::vector<float> output;  // of the first tensor
  Slot slot;                  // kept if 'keep_slot'
  bool keep_slot = false;
  absl::Notification done;
};

class BookKeeper : public CardListener {
 public:
  void OnBatchDone(Card& card, Slot slot, void* tag, BatchResult result) override {
    Ticket& ticket = *static_cast<Ticket*>(tag);
    if (ticket.completions.fetch_add(1) != 0) return;
    if (result.outcome == BatchOutcome::kOk && !result.outputs.empty()) {
      const channel::TensorDesc& out = result.outputs[0];
      ticket.output.resize(out.bytes / sizeof(float));
      std::memcpy(ticket.output.data(), slot.output().data() + out.offset,
                  ticket.output.size() * sizeof(float));
    }
    ticket.result = std::move(result);
    if (ticket.keep_slot) {
      ticket.slot = std::move(slot);
    } else {
      slot = Slot();
    }
    Note([&] { ++batches_; });
    ticket.done.Notify();
  }
  void OnTurn(Card& card) override {
    Note([&] { ++turns_[card.index()]; });
  }
  void OnCardLost(Card& card) override {
    Note([&] { ++lost_[card.index()]; });
  }
  void OnResidentLost(Card& card, ExecutableId id, const absl::Status& status) override {
    Note([&] { residents_lost_[id] = status; });
  }

  // Waits until 'condition' holds; it is looked at again after each event.
  bool Await(const std::function<bool()>& condition, absl::Duration patience = kPatience) {
    const absl::Time until = absl::Now() + patience;
    for (;;) {
      int64_t seen;
      {
        absl::MutexLock lock(&mu_);
        seen = events_;
      }
      if (condition()) return true;
      const auto changed = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return events_ != seen; };
      absl::MutexLock lock(&mu_);
      // The state can change a moment after the event that announces it.
      mu_.AwaitWithTimeout(absl::Condition(&changed), absl::Milliseconds(20));
      if (absl::Now() > until) return false;
    }
  }
  int turns(int card) {
    absl::MutexLock lock(&mu_);
    return turns_[card];
  }
  int lost(int card) {
    absl::MutexLock lock(&mu_);
    return lost_[card];
  }
  std::map<ExecutableId, absl::Status> residents_lost() {
    absl::MutexLock lock(&mu_);
    return residents_lost_;
  }

 private:
  template <typename F>
  void Note(F change) {
    absl::MutexLock lock(&mu_);
    change();
    ++events_;
  }

  absl::Mutex mu_;
  int64_t events_ = 0;
  int batches_ = 0;
  std::map<int, int> turns_, lost_;
  std::map<ExecutableId, absl::Status> residents_lost_;
};

class CardsTest : public ::testing::Test {
 protected:
  CardsTest() {
    dir_ = ::testing::TempDir() + "/belfry-cards-XXXXXX";
    EXPECT_NE(mkdtemp(dir_.data()), nullptr);
    options_.groups = {{"fault", 1}};
    options_.card_binary = BELFRY_CARD_BINARY;
    options_.arena_bytes = 1 << 20;
    options_.backoff_first = absl::Milliseconds(5);
    options_.backoff_limit = absl::Milliseconds(200);
  }
  ~CardsTest() override {
    pool_.reset();
    std::filesystem::remove_all(dir_);
  }

  void StartPool() {
    auto pool = CardPool::Start(options_, &book_);
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
  }
  void StartReady() {
    StartPool();
    for (Card* card : pool_->cards()) ASSERT_TRUE(AwaitReady(*card)) << card->Info().last_error;
  }
  Card& card(int index = 0) { return *pool_->cards()[index]; }
  bool AwaitReady(Card& card) {
    return book_.Await([&] { return card.state() == CardState::kReady; });
  }
  // READY again after that many losses in all.
  bool AwaitRestarts(Card& card, int restarts) {
    return book_.Await([&] {
      return card.Info().restarts >= restarts && card.state() == CardState::kReady;
    });
  }

  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  void Touch(const std::string& name) { std::ofstream(Path(name)) << "x"; }

  static ExecutableSpec Echo(ExecutableId id = 1) { return {id, "echo/1", "", "echo"}; }
  ExecutableSpec Artifact(ExecutableId id, const std::string& name, const nlohmann::json& rules) {
    WriteFaultArtifact(Path(name), rules);
    return {id, name + "/1", Path(name), ""};
  }

  Slot AwaitSlot(Card& card) {
    Slot slot;
    book_.Await([&] {
      slot = card.TryAcquireSlot();
      return static_cast<bool>(slot);
    });
    return slot;
  }
  // Rows of four floats, the first 'first', each one more than the one before.
  static void Submit(Card& card, Slot slot, Ticket* ticket, ExecutableId id, int rows = 1,
                     float first = 0, MonoNs watchdog = kNoHurry) {
    channel::TensorDesc input = {};
    input.dtype = static_cast<uint8_t>(DataType::kFp32);
    input.rank = 2;
    input.dims[0] = rows;
    input.dims[1] = 4;
    input.offset = 0;
    input.bytes = static_cast<uint64_t>(rows) * 4 * sizeof(float);
    float* data = reinterpret_cast<float*>(slot.input().data());
    for (int i = 0; i < rows * 4; ++i) data[i] = first + static_cast<float>(i);
    BatchCall call;
    call.executable = id;
    call.inputs = std::span(&input, 1);
    call.watchdog_ns = watchdog;
    call.tag = ticket;
    card.Submit(std::move(slot), call);
  }
  // Submits and waits for the end.
  std::unique_ptr<Ticket> Run(Card& card, ExecutableId id, MonoNs watchdog = kNoHurry,
                              int rows = 1, float first = 0) {
    auto ticket = std::make_unique<Ticket>();
    Slot slot = AwaitSlot(card);
    EXPECT_TRUE(slot) << card.Info().last_error;
    if (!slot) return ticket;
    Submit(card, std::move(slot), ticket.get(), id, rows, first, watchdog);
    EXPECT_TRUE(ticket->done.WaitForNotificationWithTimeout(kPatience));
    return ticket;
  }
  void ExpectEcho(Card& card, ExecutableId id) {
    const auto ticket = Run(card, id, kNoHurry, 2, 7);
    EXPECT_EQ(ticket->result.outcome, BatchOutcome::kOk) << ticket->result.status;
    EXPECT_THAT(ticket->output, ::testing::ElementsAre(7, 8, 9, 10, 11, 12, 13, 14));
  }

  std::string dir_;
  PoolOptions options_;
  BookKeeper book_;
  std::unique_ptr<CardPool> pool_;
};

inline bool ProcessExists(int pid) { return kill(pid, 0) == 0; }

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_CARD_HARNESS_H_
