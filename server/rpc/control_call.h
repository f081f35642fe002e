// One unary control method on a completion queue.
#ifndef BELFRY_SERVER_RPC_CONTROL_CALL_H_
#define BELFRY_SERVER_RPC_CONTROL_CALL_H_

#include <grpcpp/grpcpp.h>

#include <optional>

#include "server/rpc/call_tag.h"
#include "server/rpc/control_handler.h"
#include "server/rpc/infer_service.h"

namespace belfry::rpc {

// 'Request' is the service's RequestXxx, 'handle' the handler's method, which
// must not block: it runs on the thread that also carries inference.
template <typename In, typename Out>
class ControlCall final : public CallTag {
 public:
  using RequestMethod = void (InferService::*)(grpc::ServerContext*, In*,
                                               grpc::ServerAsyncResponseWriter<Out>*,
                                               grpc::CompletionQueue*,
                                               grpc::ServerCompletionQueue*, void*);
  using HandleMethod = grpc::Status (ControlHandler::*)(const In&, Out*);

  ControlCall(InferService* service, grpc::ServerCompletionQueue* queue, ControlHandler* handler,
              RequestMethod request, HandleMethod handle)
      : service_(service), queue_(queue), handler_(handler), request_(request), handle_(handle) {
    Listen();
  }

  void Step(bool ok) override {
    if (answered_) {
      Listen();
    } else if (ok) {
      answered_ = true;
      Out out;
      const grpc::Status status = (handler_->*handle_)(in_, &out);
      if (status.ok()) {
        writer_->Finish(out, status, this);
      } else {
        writer_->FinishWithError(status, this);
      }
    }
  }

 private:
  void Listen() {
    answered_ = false;
    writer_.reset();
    context_.reset();
    in_.Clear();
    context_.emplace();
    writer_.emplace(&*context_);
    (service_->*request_)(&*context_, &in_, &*writer_, queue_, queue_, this);
  }

  InferService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  ControlHandler* const handler_;
  const RequestMethod request_;
  const HandleMethod handle_;
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<Out>> writer_;
  In in_;
  bool answered_ = false;
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_CONTROL_CALL_H_
