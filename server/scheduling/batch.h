// One execution: rows of several jobs laid out as the card's input tensors, and
// the way back from its output tensors to each job's own.
#ifndef BELFRY_SERVER_SCHEDULING_BATCH_H_
#define BELFRY_SERVER_SCHEDULING_BATCH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "device/channel/layout.h"
#include "server/cards/card.h"
#include "server/scheduling/job.h"
#include "server/scheduling/model_queue.h"

namespace belfry::scheduling {

// Bytes that a job's tensors take in a slot, per row (joined inputs) or as a
// whole; outputs are counted as far as the signature tells them.
struct Footprint {
  int64_t input_bytes = 0;
  int64_t output_bytes = 0;
};
// For 'rows' executed rows of this job's shape, alignment included. Saturates.
Footprint FootprintOf(const Job& job, int64_t rows);

// Executed rows of this job's shape that fit both arenas; for a job that cannot
// be cut, 0 or its own size.
int64_t RoomFor(const Job& job, int64_t input_capacity, int64_t output_capacity);

// OK if a slot of such a card can hold the job; otherwise RESOURCE_EXHAUSTED with
// the bytes needed and the limit.
absl::Status CheckFits(const Job& job, int64_t input_capacity, int64_t output_capacity);

// Fills job->padded_symbols and job->group_key from the queue's buckets.
void PlanPadding(Job* job);

// Owned by the dispatcher while a card has it (it is the tag of the call). Not
// thread-safe: one thread at a time.
class Batch {
 public:
  Batch(std::shared_ptr<ModelQueue> queue, Taken taken, MonoNs formed);

  // Lays the inputs out in the slot's arena and copies the rows in; padding is
  // written anew. Parts whose tensors do not agree with the first one's in a
  // dimension that only the compiled code understands are taken out and
  // returned. After this, inputs() is what the card is told.
  std::vector<Part> CopyIn(std::span<uint8_t> arena);
  const std::vector<channel::TensorDesc>& inputs() const { return inputs_; }

  // Checks what the card answered against the signature and the sizes of this
  // batch. INTERNAL, naming the output, if it does not fit.
  absl::Status CheckOutputs(std::span<const channel::TensorDesc> outputs) const;
  // Copies the rows of a part, whose first row in the batch is 'row', to its
  // job; padding is left behind. CheckOutputs must have been OK.
  // RESOURCE_EXHAUSTED if the job's answer would be larger than a message may be.
  absl::Status CopyOut(const Part& part, int64_t row, std::span<const channel::TensorDesc> outputs,
                       std::span<const uint8_t> arena) const;

  const std::shared_ptr<ModelQueue>& queue() const { return queue_; }
  std::vector<Part>& parts() { return parts_; }
  int64_t rows() const { return rows_; }
  int64_t executed_rows() const { return executed_; }
  MonoNs formed() const { return formed_; }
  // Card seconds charged to the queue in advance (ModelQueue::Charge).
  double charged = 0;

 private:
  bool Agrees(const Part& part) const;
  absl::Status CheckOutput(const TensorSpec& spec, const channel::TensorDesc& desc) const;
  absl::Status MakeOutputs(Job& job, std::span<const channel::TensorDesc> outputs) const;
  std::shared_ptr<ModelQueue> queue_;
  std::vector<Part> parts_;
  int64_t rows_ = 0;
  int64_t executed_ = 0;
  MonoNs formed_ = 0;
  std::vector<channel::TensorDesc> inputs_;
};

}  // namespace belfry::scheduling

#endif  // BELFRY_SERVER_SCHEDULING_BATCH_H_
