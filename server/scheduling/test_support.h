// Jobs and queues for the tests of this room.
#ifndef BELFRY_SERVER_SCHEDULING_TEST_SUPPORT_H_
#define BELFRY_SERVER_SCHEDULING_TEST_SUPPORT_H_

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/scheduling/job.h"
#include "server/scheduling/model_queue.h"

namespace belfry::scheduling::testing {

// Keeps every answer it gets.
class CollectingSink final : public AnswerSink {
 public:
  void OnAnswer(Answer answer) override {
    absl::MutexLock lock(&mutex_);
    answers_.push_back(std::move(answer));
  }
  size_t count() const {
    absl::MutexLock lock(&mutex_);
    return answers_.size();
  }
  bool WaitFor(size_t n, absl::Duration timeout = absl::Seconds(20)) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return answers_.size() >= n;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), timeout);
  }
  // Of the only answer.
  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return answers_.size() == 1 ? answers_[0].status
                                : absl::InternalError(absl::StrCat(answers_.size(), " answers"));
  }
  std::vector<float> floats(size_t tensor) const {
    absl::MutexLock lock(&mutex_);
    wire::OutputBuffer& data = const_cast<wire::OutputBuffer&>(answers_[0].tensors[tensor].data);
    std::vector<float> out(data.size() / sizeof(float));
    std::memcpy(out.data(), data.data(), data.size());
    return out;
  }
  wire::Shape shape(size_t tensor) const {
    absl::MutexLock lock(&mutex_);
    return answers_[0].tensors[tensor].shape;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<Answer> answers_ ABSL_GUARDED_BY(mutex_);
};

// Owns float data that a request's payload points to.
struct FloatPayload final : wire::PayloadOwner {
  std::vector<std::vector<float>> tensors;
};

inline Dim Fixed(int64_t n) { return {.kind = Dim::Kind::kFixed, .size = n, .text = {}}; }
inline Dim Symbol(std::string name) {
  return {.kind = Dim::Kind::kSymbol, .size = 0, .text = std::move(name)};
}

// x: FP32 [batch, width] -> y: FP32 [batch, width], rows independent.
inline Signature RowSignature(int64_t width) {
  Signature s;
  s.inputs.push_back({.name = "x",
                      .dtype = DataType::kFp32,
                      .dims = {Symbol("batch"), Fixed(width)},
                      .batch_axis = 0});
  s.outputs.push_back({.name = "y",
                       .dtype = DataType::kFp32,
                       .dims = {Symbol("batch"), Fixed(width)},
                       .batch_axis = 0});
  s.symbols["batch"] = {.min = 1, .max = 1024};
  s.batchable = true;
  s.batch_symbol = "batch";
  return s;
}

inline QueueOptions RowOptions(int64_t width, int64_t max_rows) {
  QueueOptions o;
  o.model = "m";
  o.version = "1";
  o.signature = RowSignature(width);
  o.executable = 1;
  o.limits.max_rows = max_rows;
  o.join = true;
  o.metrics = std::make_shared<telemetry::ModelMetrics>();
  o.metrics->model = "m";
  o.metrics->version = "1";
  return o;
}

// A job of one input with the given shape; element i has the value first + i.
inline std::shared_ptr<Job> MakeJob(std::shared_ptr<ModelQueue> queue, wire::Shape shape,
                                    float first, AnswerSink* sink, int batch_axis = 0) {
  auto job = std::make_shared<Job>();
  int64_t elements = 1;
  for (int64_t d : shape) elements *= d;
  auto owner = std::make_unique<FloatPayload>();
  owner->tensors.emplace_back(static_cast<size_t>(elements));
  for (int64_t i = 0; i < elements; ++i) {
    owner->tensors[0][static_cast<size_t>(i)] = first + static_cast<float>(i);
  }
  wire::RequestTensor tensor;
  tensor.name = "x";
  tensor.dtype = DataType::kFp32;
  tensor.shape = shape;
  tensor.payload.size = static_cast<size_t>(elements) * sizeof(float);
  tensor.payload.segments.push_back(
      {reinterpret_cast<const uint8_t*>(owner->tensors[0].data()), tensor.payload.size});
  job->request.inputs.push_back(std::move(tensor));
  job->request.owner = std::move(owner);
  job->binding.rows = batch_axis < 0 ? 1 : shape[static_cast<size_t>(batch_axis)];
  job->binding.shape_key = "k";
  job->queue = std::move(queue);
  job->sink = sink;
  return job;
}

}  // namespace belfry::scheduling::testing

#endif  // BELFRY_SERVER_SCHEDULING_TEST_SUPPORT_H_
