// One accepted inference request on its way from validation to its answer.
#ifndef BELFRY_SERVER_SCHEDULING_JOB_H_
#define BELFRY_SERVER_SCHEDULING_JOB_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/base/clock.h"
#include "server/telemetry/model_metrics.h"
#include "server/wire/encode.h"
#include "server/wire/request.h"

namespace belfry::scheduling {

class ModelQueue;
struct Entry;

// What the client is told. 'tensors' are the outputs it asked for, in its
// order, little-endian; empty unless status is OK.
struct Answer {
  absl::Status status;
  std::vector<wire::ResponseTensor> tensors;
};

// Receives the one answer of a job. Called exactly once, from any thread
// (often a card's completion thread: hand over, do not block).
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual void OnAnswer(Answer answer) = 0;
};

// Shared by the RPC (which may cancel it), the queue and the batches it rides
// in. Fields above the line are constant once submitted.
struct Job {
  std::shared_ptr<ModelQueue> queue;
  wire::Request request;
  wire::Binding binding;
  uint32_t priority = 2;      // 1 is the most urgent
  MonoNs deadline = kNever;   // not started by then: DEADLINE_EXCEEDED
  MonoNs accepted = 0;
  // Values of the non-batch symbols as executed (after rounding up to a
  // bucket); empty where nothing is padded.
  absl::InlinedVector<int64_t, 4> padded_symbols;
  // Key of the requests it may be joined with, where that is not simply
  // binding.shape_key (because of padding).
  std::string group_key;
  AnswerSink* sink = nullptr;
  // ---------------------------------------------------------------------
  telemetry::GaugeToken in_flight;

  // Set by the one who gives the answer; whoever sets it calls the sink.
  std::atomic<bool> answered{false};
  std::atomic<MonoNs> first_taken{0};  // when the first rows left the queue

  // Rows whose outputs have been copied; the job is done at binding.rows.
  std::atomic<int64_t> rows_done{0};
  // Guards the first allocation of 'outputs'; disjoint rows of it are written
  // without a lock by the cards' threads.
  absl::Mutex outputs_mutex;
  bool outputs_ready ABSL_GUARDED_BY(outputs_mutex) = false;
  std::vector<wire::ResponseTensor> outputs;  // all, in signature order

  // Entries of this job that wait; guarded by the queue's mutex.
  absl::InlinedVector<Entry*, 2> waiting;
};

}  // namespace belfry::scheduling

#endif  // BELFRY_SERVER_SCHEDULING_JOB_H_
