// One unary ModelInfer on a completion queue, used again for the next request
// when it is over.
#ifndef BELFRY_SERVER_RPC_INFER_CALL_H_
#define BELFRY_SERVER_RPC_INFER_CALL_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <optional>

#include "server/rpc/call_tag.h"
#include "server/rpc/infer_handler.h"
#include "server/rpc/infer_service.h"
#include "server/scheduling/job.h"

namespace belfry::rpc {

// The time by which a call's client wants its answer.
MonoNs DeadlineOf(const grpc::ServerContextBase& context);

// Life: Listen -> Arrived -> (answer, from any thread: Finish) -> Finished and
// Done, in either order -> Listen. The object belongs to the frontend; gRPC's
// part of it is made anew for each request. All steps run on the thread of its
// queue; OnAnswer on any. After Finish has been called nothing but the queue's
// thread may touch the object.
class InferCall final : public scheduling::AnswerSink {
 public:
  InferCall(InferService* service, grpc::ServerCompletionQueue* queue, InferHandler* handler);

  void Listen();
  void OnAnswer(scheduling::Answer answer) override;

 private:
  void Arrived(bool ok);
  void Finished(bool ok);
  void Done(bool ok);
  void EventSeen();

  InferService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  InferHandler* const handler_;
  MethodTag<InferCall> arrived_{this, &InferCall::Arrived};
  MethodTag<InferCall> finished_{this, &InferCall::Finished};
  MethodTag<InferCall> done_{this, &InferCall::Done};

  // In this order: the writer holds the call, which must go before the context.
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>> writer_;
  grpc::ByteBuffer message_;
  InferTicket ticket_;
  int events_left_ = 0;  // Finished and Done
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_INFER_CALL_H_
