#include "server/rpc/infer_frontend.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/call_tag.h"
#include "server/rpc/control_call.h"
#include "server/rpc/infer_call.h"
#include "server/rpc/infer_handler.h"
#include "server/rpc/infer_service.h"
#include "server/rpc/stream_call.h"

namespace belfry::rpc {
namespace {

// A queue's thread decodes, copies small payloads and starts batches; half of
// the host's cores for that leaves the other half to the cards' drivers.
int DefaultQueues() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / 2, 1, 16);
}

}  // namespace

class InferFrontend::Impl {
 public:
  Impl(InferOptions options, const serving::Catalog* catalog, scheduling::Dispatcher* dispatcher,
       telemetry::Metrics* metrics, ControlHandler* control)
      : options_(std::move(options)),
        handler_(options_.decode, options_.max_in_flight_bytes, catalog, dispatcher, metrics),
        control_(control) {}

  ~Impl() { Stop(); }

  void AddTo(grpc::ServerBuilder* builder) {
    builder->RegisterService(&service_);
    const int n = options_.queues > 0 ? options_.queues : DefaultQueues();
    for (int i = 0; i < n; ++i) queues_.push_back(builder->AddCompletionQueue());
  }

  void Start() {
    for (const auto& queue : queues_) {
      for (int i = 0; i < options_.calls_per_queue; ++i) {
        calls_.push_back(std::make_unique<InferCall>(&service_, queue.get(), &handler_));
        calls_.back()->Listen();
      }
      StreamCall::Listen(&service_, queue.get(), &handler_, options_.max_in_flight_per_stream);
      AddControlCalls(queue.get());
    }
    for (size_t i = 0; i < queues_.size(); ++i) {
      threads_.emplace_back([this, i] { Run(queues_[i].get(), i); });
    }
  }

  void Stop() {
    if (std::exchange(stopped_, true)) return;
    for (const auto& queue : queues_) queue->Shutdown();
    // Without threads (Start was never called) the queues are emptied here.
    for (std::thread& thread : threads_) thread.join();
    if (threads_.empty()) {
      for (const auto& queue : queues_) Drain(queue.get());
    }
  }

 private:
  void Run(grpc::ServerCompletionQueue* queue, size_t number) {
    pthread_setname_np(pthread_self(), absl::StrCat("belfry-rpc-", number).c_str());
    Drain(queue);
  }

  static void Drain(grpc::ServerCompletionQueue* queue) {
    void* tag;
    bool ok;
    while (queue->Next(&tag, &ok)) static_cast<CallTag*>(tag)->Step(ok);
  }

  // Owner: the layer of InferService that declares the method.
  template <typename Owner, typename In, typename Out>
  void Add(grpc::ServerCompletionQueue* queue,
           void (Owner::*request)(grpc::ServerContext*, In*, grpc::ServerAsyncResponseWriter<Out>*,
                                  grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*),
           grpc::Status (ControlHandler::*handle)(const In&, Out*)) {
    control_calls_.push_back(
        std::make_unique<ControlCall<In, Out>>(&service_, queue, control_, request, handle));
  }

  void AddControlCalls(grpc::ServerCompletionQueue* queue) {
    using S = InferService;
    using C = ControlHandler;
    Add(queue, &S::RequestServerLive, &C::ServerLive);
    Add(queue, &S::RequestServerReady, &C::ServerReady);
    Add(queue, &S::RequestModelReady, &C::ModelReady);
    Add(queue, &S::RequestServerMetadata, &C::ServerMetadata);
    Add(queue, &S::RequestModelMetadata, &C::ModelMetadata);
    Add(queue, &S::RequestModelConfig, &C::ModelConfig);
    Add(queue, &S::RequestModelStatistics, &C::ModelStatistics);
    Add(queue, &S::RequestRepositoryIndex, &C::RepositoryIndex);
    Add(queue, &S::RequestRepositoryModelLoad, &C::RepositoryModelLoad);
    Add(queue, &S::RequestRepositoryModelUnload, &C::RepositoryModelUnload);
  }

  const InferOptions options_;
  InferHandler handler_;
  ControlHandler* const control_;
  InferService service_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::vector<std::unique_ptr<InferCall>> calls_;
  std::vector<std::unique_ptr<CallTag>> control_calls_;
  std::vector<std::thread> threads_;
  bool stopped_ = false;
};

InferFrontend::InferFrontend(InferOptions options, const serving::Catalog* catalog,
                             scheduling::Dispatcher* dispatcher, telemetry::Metrics* metrics,
                             ControlHandler* control)
    : impl_(std::make_unique<Impl>(std::move(options), catalog, dispatcher, metrics, control)) {}

InferFrontend::~InferFrontend() = default;
void InferFrontend::AddTo(grpc::ServerBuilder* builder) { impl_->AddTo(builder); }
void InferFrontend::Start() { impl_->Start(); }
void InferFrontend::Stop() { impl_->Stop(); }

}  // namespace belfry::rpc
