#include "device/card/controller.h"

#include <malloc.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "device/card/echo.h"

namespace belfry::card {
namespace {

// belfryd reads its end all the time; one that does not for so long hangs.
constexpr absl::Duration kSendTimeout = absl::Seconds(30);

}  // namespace

void Controller::Run() {
  for (;;) {
    auto message = socket_->Receive(absl::InfiniteDuration());
    if (absl::IsUnavailable(message.status())) return;
    auto request = message.ok() ? channel::ParseRequest(*message)
                                : absl::StatusOr<channel::Request>(message.status());
    channel::Reply reply;
    if (request.ok()) {
      reply = Handle(*request);
    } else {
      reply.id = message.ok() ? channel::MessageId(*message) : 0;
      reply.status = request.status();
    }
    const OpenCard::Memory memory = card_->memory();
    reply.memory_used = memory.used;
    reply.memory_total = memory.total;
    if (!socket_->Send(channel::EncodeReply(reply), kSendTimeout).ok()) return;
    if (request.ok() && request->op == channel::Op::kShutdown) return;
  }
}

channel::Reply Controller::Handle(const channel::Request& request) {
  channel::Reply reply;
  reply.id = request.id;
  switch (request.op) {
    case channel::Op::kLoad:
      reply.status = Load(request, &reply.resident_bytes);
      break;
    case channel::Op::kWarm:
      reply.status = Warm(request);
      break;
    case channel::Op::kUnload:
      reply.status = Unload(request);
      break;
    case channel::Op::kMemory:
      break;
    case channel::Op::kShutdown:
      executor_->Drain();
      break;
  }
  return reply;
}

absl::Status Controller::Load(const channel::Request& request, uint64_t* resident_bytes) {
  if (table_->Contains(request.executable)) {
    return absl::AlreadyExistsError(
        absl::StrCat("executable ", request.executable, " is loaded already"));
  }
  std::unique_ptr<Executable> executable;
  if (request.builtin == "echo") {
    executable = std::make_unique<EchoExecutable>();
  } else if (!request.builtin.empty()) {
    return absl::NotFoundError(
        absl::StrCat("built-in model '", request.builtin, "', expected 'echo'"));
  } else {
    auto loaded = DriverExecutable::Load(card_, request.dir);
    if (!loaded.ok()) return loaded.status();
    executable = *std::move(loaded);
  }
  *resident_bytes = executable->resident_bytes();
  return table_->Add(request.executable, request.label, std::move(executable));
}

absl::Status Controller::Unload(const channel::Request& request) {
  absl::Status status = table_->Remove(request.executable);
#ifdef __GLIBC__
  // What a model took in small pieces goes back to the host now, or a card that
  // loads and unloads for weeks keeps the most that it ever had.
  if (status.ok()) malloc_trim(0);
#endif
  return status;
}

absl::Status Controller::Warm(const channel::Request& request) {
  const ExecutableTable::Use use = table_->Find(request.executable);
  if (!use) {
    return absl::NotFoundError(absl::StrCat("executable ", request.executable, " is not loaded"));
  }
  for (const auto& shape : request.shapes) {
    if (auto s = use->Warm(shape); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace belfry::card
