#include "server/rpc/infer_call.h"

#include <chrono>
#include <utility>

#include "server/rpc/status.h"
#include "server/wire/encode.h"

namespace belfry::rpc {

MonoNs DeadlineOf(const grpc::ServerContextBase& context) {
  const auto left = context.deadline() - std::chrono::system_clock::now();
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
  // gRPC says "none" with a time some centuries ahead.
  constexpr int64_t kYear = 365ll * 24 * 3600 * 1'000'000'000;
  if (ns > kYear) return kNever;
  return Clock::Real().Now() + ns;
}

InferCall::InferCall(InferService* service, grpc::ServerCompletionQueue* queue,
                     InferHandler* handler)
    : service_(service), queue_(queue), handler_(handler) {}

void InferCall::Listen() {
  ticket_ = InferTicket();
  writer_.reset();
  context_.reset();
  message_.Clear();
  context_.emplace();
  writer_.emplace(&*context_);
  events_left_ = 2;
  // Done tells of a client that went away or a deadline that passed.
  context_->AsyncNotifyWhenDone(&done_);
  service_->RequestModelInfer(&*context_, &message_, &*writer_, queue_, queue_, &arrived_);
}

void InferCall::Arrived(bool ok) {
  if (!ok) return;  // the server shuts down; this call is not used any more
  grpc::ByteBuffer message;
  message.Swap(&message_);
  const absl::Status status =
      handler_->Start(std::move(message), DeadlineOf(*context_), this, &ticket_);
  if (!status.ok()) writer_->FinishWithError(ToGrpc(status), &finished_);
}

void InferCall::OnAnswer(scheduling::Answer answer) {
  if (!answer.status.ok()) {
    writer_->FinishWithError(ToGrpc(answer.status), &finished_);
    return;
  }
  const scheduling::ModelQueue& queue = *ticket_.job->queue;
  writer_->Finish(wire::EncodeInferResponse(queue.model(), queue.version(), ticket_.id,
                                            std::move(answer.tensors)),
                  grpc::Status::OK, &finished_);
}

void InferCall::Finished(bool) { EventSeen(); }

void InferCall::Done(bool) {
  // Before the answer this means that the client has gone or its time is up.
  // After it, Cancel finds the job answered and does nothing.
  if (context_->IsCancelled()) handler_->Cancel(ticket_);
  EventSeen();
}

void InferCall::EventSeen() {
  if (--events_left_ == 0) Listen();
}

}  // namespace belfry::rpc
