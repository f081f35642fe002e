#include "server/scheduling/answer.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/scheduling/model_queue.h"

namespace belfry::scheduling {
namespace {

bool Claim(Job& job) {
  return !job.answered.exchange(true, std::memory_order_acq_rel);
}

void Give(Job& job, Answer answer, MonoNs now) {
  ModelQueue& queue = *job.queue;
  telemetry::ModelMetrics& metrics = queue.metrics();
  metrics.requests[static_cast<size_t>(answer.status.code())].Add();
  metrics.request_seconds.Observe(static_cast<double>(now - job.accepted) * 1e-9);
  const MonoNs taken = job.first_taken.load(std::memory_order_relaxed);
  if (taken > 0) metrics.queue_seconds.Observe(static_cast<double>(taken - job.accepted) * 1e-9);
  if (answer.status.ok()) metrics.rows.Add(static_cast<uint64_t>(job.binding.rows));
  job.in_flight.Drop();
  job.sink->OnAnswer(std::move(answer));
  queue.JobEnded();
}

absl::StatusOr<std::vector<wire::ResponseTensor>> Select(Job& job) {
  const QueueOptions& options = job.queue->options();
  if (job.request.outputs.empty()) return std::move(job.outputs);
  std::vector<wire::ResponseTensor> chosen;
  chosen.reserve(job.request.outputs.size());
  for (const wire::RequestedOutput& asked : job.request.outputs) {
    const auto found = std::find_if(job.outputs.begin(), job.outputs.end(),
                                    [&](const auto& t) { return t.name == asked.name; });
    if (found == job.outputs.end()) {  // validated before: cannot be
      return absl::InternalError(absl::StrCat("output '", asked.name, "' was not computed"));
    }
    if (asked.classification == 0) {
      chosen.push_back(std::move(*found));
      continue;
    }
    const auto labels = options.labels.find(asked.name);
    auto classes = wire::Classify(std::move(*found), asked.classification,
                                  labels == options.labels.end()
                                      ? std::span<const std::string>()
                                      : std::span<const std::string>(labels->second));
    if (!classes.ok()) return classes.status();
    chosen.push_back(*std::move(classes));
  }
  return chosen;
}

}  // namespace

bool FinishOk(Job& job, MonoNs now) {
  if (!Claim(job)) return false;
  auto tensors = Select(job);
  Answer answer;
  if (tensors.ok()) {
    answer.tensors = *std::move(tensors);
  } else {
    answer.status = tensors.status();
  }
  Give(job, std::move(answer), now);
  return true;
}

bool FinishError(Job& job, const absl::Status& status, MonoNs now) {
  if (!Claim(job)) return false;
  job.queue->Remove(job);
  Give(job, Answer{.status = status, .tensors = {}}, now);
  return true;
}

}  // namespace belfry::scheduling
