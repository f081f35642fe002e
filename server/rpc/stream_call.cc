#include "server/rpc/stream_call.h"

#include <utility>
#include <vector>

#include "server/rpc/infer_call.h"
#include "server/rpc/status.h"
#include "server/wire/encode.h"

namespace belfry::rpc {

void StreamCall::Listen(InferService* service, grpc::ServerCompletionQueue* queue,
                        InferHandler* handler, int max_in_flight) {
  auto* call = new StreamCall(service, queue, handler, max_in_flight);
  call->context_.AsyncNotifyWhenDone(&call->call_done_);
  service->RequestModelStreamInfer(&call->context_, &call->stream_, queue, queue, &call->arrived_);
}

StreamCall::StreamCall(InferService* service, grpc::ServerCompletionQueue* queue,
                       InferHandler* handler, int max_in_flight)
    : service_(service),
      queue_(queue),
      handler_(handler),
      max_in_flight_(static_cast<size_t>(max_in_flight)) {}

void StreamCall::Arrived(bool ok) {
  if (!ok) {  // the server shuts down: no stream came, no other tag will
    delete this;
    return;
  }
  Listen(service_, queue_, handler_, static_cast<int>(max_in_flight_));
  mutex_.Lock();
  PumpAndUnlock();
}

void StreamCall::ReadDone(bool ok) {
  mutex_.Lock();
  if (!ok) {
    reading_ = false;
    half_closed_ = true;
    PumpAndUnlock();
    return;
  }
  items_.push_back(std::make_unique<Item>(this));
  Item* item = items_.back().get();
  mutex_.Unlock();

  // The item stays in items_ until it is answered, so it is good here; it is not
  // touched after the answer may have come.
  grpc::ByteBuffer message;
  message.Swap(&incoming_);
  const absl::Status status =
      handler_->Start(std::move(message), DeadlineOf(context_), item, &item->ticket);
  if (!status.ok()) item->Refuse(status);

  // Only now: as long as it reads, the object stays, whoever else is done.
  mutex_.Lock();
  reading_ = false;
  PumpAndUnlock();
}

void StreamCall::Item::OnAnswer(scheduling::Answer answer) {
  const scheduling::ModelQueue& queue = *ticket.job->queue;
  stream->Answered(this, answer.status.ok()
                             ? wire::EncodeStreamResponse(queue.model(), queue.version(), ticket.id,
                                                          std::move(answer.tensors))
                             : wire::EncodeStreamError(queue.model(), queue.version(), ticket.id,
                                                       answer.status));
}

void StreamCall::Item::Refuse(const absl::Status& status) {
  stream->Answered(this, wire::EncodeStreamError("", "", ticket.id, status));
}

void StreamCall::Answered(Item* item, grpc::ByteBuffer response) {
  mutex_.Lock();
  item->response = std::move(response);
  item->answered = true;
  PumpAndUnlock();
}

void StreamCall::WriteDone(bool ok) {
  mutex_.Lock();
  writing_ = false;
  items_.pop_front();
  if (!ok) broken_ = true;
  PumpAndUnlock();
}

void StreamCall::FinishDone(bool) {
  mutex_.Lock();
  finishing_ = false;
  finished_ = true;
  PumpAndUnlock();
}

void StreamCall::CallDone(bool) {
  std::vector<std::shared_ptr<scheduling::Job>> jobs;
  mutex_.Lock();
  if (context_.IsCancelled()) {
    broken_ = true;
    for (const auto& item : items_) {
      if (!item->answered && item->ticket.job != nullptr) jobs.push_back(item->ticket.job);
    }
  }
  mutex_.Unlock();
  // Answers come back through Answered, so not under the lock; the object lives
  // since call_over_ is not set yet.
  for (const auto& job : jobs) handler_->Cancel({.job = job, .id = {}, .bytes = {}});
  mutex_.Lock();
  call_over_ = true;
  PumpAndUnlock();
}

bool StreamCall::Pump() {
  if (broken_) {
    // Nothing is written any more; answered requests are dropped.
    while (!items_.empty() && items_.front()->answered && !writing_) items_.pop_front();
  } else if (!writing_ && !items_.empty() && items_.front()->answered) {
    writing_ = true;
    stream_.Write(items_.front()->response, &write_done_);
  }
  if (!broken_ && !half_closed_ && !reading_ && items_.size() < max_in_flight_) {
    reading_ = true;
    stream_.Read(&incoming_, &read_done_);
  }
  const bool drained = items_.empty() && !writing_ && !reading_;
  if (drained && half_closed_ && !broken_ && !finishing_ && !finished_) {
    finishing_ = true;
    stream_.Finish(grpc::Status::OK, &finish_done_);
  }
  return drained && !finishing_ && call_over_;
}

void StreamCall::PumpAndUnlock() {
  const bool over = Pump();
  mutex_.Unlock();
  if (over) delete this;
}

}  // namespace belfry::rpc
