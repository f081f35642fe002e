// Runs the batches that belfryd puts into the channel's slots.
#ifndef BELFRY_DEVICE_CARD_EXECUTOR_H_
#define BELFRY_DEVICE_CARD_EXECUTOR_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "device/card/executable_table.h"
#include "device/channel/doorbell.h"
#include "device/channel/mapping.h"
#include "device/driver.h"

namespace belfry::card {

// Owns the execution thread: it sleeps on the card's bell, takes submitted slots
// in the order of their sequence numbers, checks what belfryd wrote, and hands
// the call to the executable. The answer is published from wherever the driver
// calls 'done', straight from the driver's outputs in the slot's arena. Takes no
// memory for a good batch once it runs.
//
// The mapping and the table must outlive it.
class Executor {
 public:
  Executor(const channel::Mapping* mapping, ExecutableTable* table, absl::Duration spin);
  ~Executor();

  void Start();
  // Finishes what is submitted and ends the thread. Idempotent; one caller.
  void Drain();

 private:
  // One slot's execution. Reused; the execution thread fills it, the thread
  // that calls 'done' reads it.
  struct Run {
    Executor* executor = nullptr;
    uint32_t slot = 0;
    uint64_t sequence = 0;
    uint64_t start_ns = 0;
    ExecutableTable::Use use;
    belfry_call call = {};
    std::vector<channel::TensorDesc> checked;
    std::array<belfry_tensor, channel::kMaxTensors> inputs;
    std::array<belfry_tensor, channel::kMaxTensors> outputs;
  };

  void Loop();
  // The submitted slot with the lowest sequence number.
  std::optional<uint32_t> Next() const;
  void Execute(uint32_t slot);
  // Whether this number came lately already.
  bool IsRepeated(uint64_t sequence);
  void FillCall(Run& run);

  static void OnDone(belfry_call* call, belfry_outcome outcome, int last);
  void Publish(Run& run, channel::Outcome outcome, std::string_view message, bool last);
  void WriteOutputs(const Run& run, channel::SlotControl& control, channel::Outcome* outcome);
  // After an answer that is not the last: until belfryd has taken it.
  void AwaitTaken(uint32_t slot);
  void NotifyTaken();

  const channel::Mapping* const mapping_;
  ExecutableTable* const table_;
  const absl::Duration spin_;
  const channel::Doorbell card_bell_;
  const channel::Doorbell front_bell_;
  std::array<std::unique_ptr<Run>, channel::kSlots> runs_;
  std::array<std::optional<uint64_t>, channel::kSlots> recent_;
  size_t recent_next_ = 0;

  std::atomic<bool> stopping_{false};
  std::atomic<int> in_flight_{0};

  // Streams that are answered from the driver's own threads wait here; only the
  // execution thread may sleep on the bell.
  absl::Mutex stream_mutex_;
  absl::CondVar stream_taken_;
  std::atomic<int> streams_waiting_{0};

  std::thread thread_;
};

}  // namespace belfry::card

#endif  // BELFRY_DEVICE_CARD_EXECUTOR_H_
