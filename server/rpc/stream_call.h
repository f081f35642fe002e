// One ModelStreamInfer: requests come in as fast as their number in flight
// allows, answers go out in the order of the requests.
#ifndef BELFRY_SERVER_RPC_STREAM_CALL_H_
#define BELFRY_SERVER_RPC_STREAM_CALL_H_

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/call_tag.h"
#include "server/rpc/infer_handler.h"
#include "server/rpc/infer_service.h"
#include "server/scheduling/job.h"

namespace belfry::rpc {

// Deletes itself when gRPC has returned every tag and every request of the
// stream is answered. Tags step on the queue's thread; answers come on any.
class StreamCall {
 public:
  // Waits for one stream; when it comes, another StreamCall takes the place.
  static void Listen(InferService* service, grpc::ServerCompletionQueue* queue,
                     InferHandler* handler, int max_in_flight);

 private:
  // One request of the stream.
  struct Item final : scheduling::AnswerSink {
    explicit Item(StreamCall* s) : stream(s) {}
    void OnAnswer(scheduling::Answer answer) override;
    void Refuse(const absl::Status& status);

    StreamCall* const stream;
    InferTicket ticket;
    grpc::ByteBuffer response;  // set once answered
    bool answered = false;      // guarded by stream->mutex_
  };

  StreamCall(InferService* service, grpc::ServerCompletionQueue* queue, InferHandler* handler,
             int max_in_flight);

  void Arrived(bool ok);
  void ReadDone(bool ok);
  void WriteDone(bool ok);
  void FinishDone(bool ok);
  void CallDone(bool ok);

  void Answered(Item* item, grpc::ByteBuffer response);
  // Starts whatever operation may start now; returns true if the object has no
  // more to wait for and must be deleted (after the lock is gone).
  bool Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PumpAndUnlock() ABSL_UNLOCK_FUNCTION(mutex_);

  InferService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  InferHandler* const handler_;
  const size_t max_in_flight_;
  MethodTag<StreamCall> arrived_{this, &StreamCall::Arrived};
  MethodTag<StreamCall> read_done_{this, &StreamCall::ReadDone};
  MethodTag<StreamCall> write_done_{this, &StreamCall::WriteDone};
  MethodTag<StreamCall> finish_done_{this, &StreamCall::FinishDone};
  MethodTag<StreamCall> call_done_{this, &StreamCall::CallDone};

  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_{&context_};
  grpc::ByteBuffer incoming_;

  absl::Mutex mutex_;
  std::deque<std::unique_ptr<Item>> items_ ABSL_GUARDED_BY(mutex_);  // oldest first
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;  // the client sends no more
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;       // nobody listens any more
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool call_over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_STREAM_CALL_H_
