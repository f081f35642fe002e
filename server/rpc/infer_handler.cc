#include "server/rpc/infer_handler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/wire/validate.h"

namespace belfry::rpc {
namespace {

using scheduling::Job;

void CountRefused(telemetry::ModelMetrics& metrics, const absl::Status& status) {
  metrics.requests[static_cast<size_t>(status.code())].Add();
}

}  // namespace

absl::Status InferHandler::Submit(const serving::VersionEntry& entry, wire::Request* request,
                                  MonoNs accepted, MonoNs deadline, scheduling::AnswerSink* sink,
                                  InferTicket* ticket) {
  auto binding = wire::Validate(entry.model, entry.version, *entry.signature, request);
  if (!binding.ok()) {
    CountRefused(entry.queue->metrics(), binding.status());
    return binding.status();
  }
  auto job = std::make_shared<Job>();
  job->queue = entry.queue;
  job->request = std::move(*request);
  job->binding = *std::move(binding);
  job->priority = job->request.priority;
  job->deadline = deadline;
  if (job->request.timeout_us > 0) {
    // timeout is at most 2^63 us; as nanoseconds from now it may not fit.
    const int64_t most = (kNever - accepted) / 1000;
    if (job->request.timeout_us < most) {
      job->deadline = std::min(job->deadline, accepted + job->request.timeout_us * 1000);
    }
  }
  job->accepted = accepted;
  job->sink = sink;
  ticket->job = job;  // before Submit: the answer may come inside it
  absl::Status status = dispatcher_->Submit(job);
  if (!status.ok()) {
    ticket->job.reset();
    *request = std::move(job->request);  // for another version, if one took over
    if (!serving::IsRetired(status)) CountRefused(entry.queue->metrics(), status);
  }
  return status;
}

absl::Status InferHandler::Start(grpc::ByteBuffer message, MonoNs deadline,
                                 scheduling::AnswerSink* sink, InferTicket* ticket) {
  const MonoNs accepted = Clock::Real().Now();
  const auto bytes = static_cast<int64_t>(message.Length());
  ticket->bytes = telemetry::GaugeToken(&in_flight_bytes_, bytes);
  if (in_flight_bytes_.load(std::memory_order_relaxed) > max_in_flight_bytes_) {
    metrics_->CountRejected(absl::StatusCode::kResourceExhausted);
    return absl::ResourceExhaustedError(absl::StrCat(
        "requests under way hold more than ", max_in_flight_bytes_,
        " bytes (--max-in-flight-mb); this one has ", bytes));
  }
  auto request = wire::DecodeInferRequest(std::move(message), limits_);
  if (!request.ok()) {
    metrics_->CountRejected(request.status().code());
    return request.status();
  }
  ticket->id = request->id;
  bool counted = false;  // by the figures of a version
  const std::string model = request->model_name;  // Submit moves the request
  const std::string version = request->model_version;
  absl::Status status =
      catalog_->WithReady(model, version, [&](const auto& entry) {
        const absl::Status tried = Submit(*entry, &*request, accepted, deadline, sink, ticket);
        counted = !serving::IsRetired(tried);
        return tried;
      });
  if (counted) return status;
  status = wire::RefuseUnresolved(*request, status);
  metrics_->CountRejected(status.code());
  return status;
}

}  // namespace belfry::rpc
