#include "device/card/executor.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include <algorithm>

#include "device/channel/check.h"
#include "device/channel/layout.h"
#include "device/channel/text.h"

namespace belfry::card {
namespace {

using channel::kMaxTensors;
using channel::kSlots;
using channel::Outcome;
using channel::SlotControl;
using channel::SlotState;

uint64_t NowNs() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(ts.tv_nsec);
}

// The other process may write at any time: exactly one load, which the compiler
// must not repeat.
template <typename T>
T ReadOnce(const T& shared) {
  return *const_cast<const volatile T*>(&shared);
}

SlotState StateOf(const SlotControl& control) {
  return static_cast<SlotState>(control.state.load(std::memory_order_acquire));
}

Outcome FromDriver(belfry_outcome outcome) {
  switch (outcome) {
    case BELFRY_OK: return Outcome::kOk;
    case BELFRY_MODEL_ERROR: return Outcome::kModelError;
    case BELFRY_OUTPUT_TOO_LARGE: return Outcome::kOutputTooLarge;
    case BELFRY_CARD_ERROR: break;
  }
  return Outcome::kCardError;
}

// A span of text that ends before a character that does not fit.
std::string_view Cut(std::string_view text, size_t max) {
  if (text.size() <= max) return text;
  while (max > 0 && (static_cast<uint8_t>(text[max]) & 0xc0) == 0x80) --max;
  return text.substr(0, max);
}

}  // namespace

Executor::Executor(const channel::Mapping* mapping, ExecutableTable* table, absl::Duration spin)
    : mapping_(mapping),
      table_(table),
      spin_(spin),
      card_bell_(channel::Doorbell::OfCard(mapping->header())),
      front_bell_(channel::Doorbell::OfFront(mapping->header())) {
  for (uint32_t i = 0; i < kSlots; ++i) {
    runs_[i] = std::make_unique<Run>();
    runs_[i]->executor = this;
    runs_[i]->slot = i;
    runs_[i]->checked.reserve(kMaxTensors);
  }
}

Executor::~Executor() { Drain(); }

void Executor::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "card-exec");
    Loop();
  });
}

void Executor::Drain() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  card_bell_.RingAlways();
  thread_.join();
}

void Executor::Loop() {
  for (;;) {
    const uint32_t ticket = card_bell_.Ticket();
    if (const auto slot = Next()) {
      Execute(*slot);
      continue;
    }
    if (streams_waiting_.load() != 0) NotifyTaken();
    if (stopping_.load() && in_flight_.load() == 0) return;
    card_bell_.Wait(ticket, absl::InfiniteDuration(), spin_);
  }
}

std::optional<uint32_t> Executor::Next() const {
  std::optional<uint32_t> best;
  uint64_t best_sequence = 0;
  for (uint32_t i = 0; i < kSlots; ++i) {
    const SlotControl& control = mapping_->control(i);
    if (StateOf(control) != SlotState::kSubmitted) continue;
    const uint64_t sequence = ReadOnce(control.sequence);
    if (!best || sequence < best_sequence) {
      best = i;
      best_sequence = sequence;
    }
  }
  return best;
}

bool Executor::IsRepeated(uint64_t sequence) {
  if (std::find(recent_.begin(), recent_.end(), sequence) != recent_.end()) return true;
  recent_[recent_next_] = sequence;
  recent_next_ = (recent_next_ + 1) % recent_.size();
  return false;
}

void Executor::Execute(uint32_t slot) {
  SlotControl& control = mapping_->control(slot);
  Run& run = *runs_[slot];
  run.start_ns = NowNs();
  // Each field of belfryd's is read once, here.
  run.sequence = ReadOnce(control.sequence);
  const uint32_t id = ReadOnce(control.executable);
  const uint32_t count = ReadOnce(control.input_count);
  control.state.store(static_cast<uint32_t>(SlotState::kRunning), std::memory_order_release);
  run.call.output_count = 0;
  run.call.cycles = 0;
  in_flight_.fetch_add(1);

  if (IsRepeated(run.sequence)) {
    Publish(run, Outcome::kBadRequest, "the sequence number was used before", true);
    return;
  }
  auto status =
      channel::CopyChecked(control.inputs, count, mapping_->input(slot).size(), &run.checked);
  if (!status.ok()) {
    Publish(run, Outcome::kBadRequest, StdView(status.message()), true);
    return;
  }
  run.use = table_->Find(id);
  if (!run.use) {
    Publish(run, Outcome::kNoExecutable, "the executable is not loaded", true);
    return;
  }
  status = run.use->Check(run.checked);
  if (!status.ok()) {
    Publish(run, Outcome::kBadRequest, StdView(status.message()), true);
    return;
  }
  FillCall(run);
  // A driver may still be inside 'submit' when another of its threads has called
  // 'done': the executable stays for both.
  ExecutableTable::Use during_submit = run.use.Again();
  during_submit->Submit(&run.call);
}

void Executor::FillCall(Run& run) {
  const auto input = mapping_->input(run.slot);
  const auto output = mapping_->output(run.slot);
  for (size_t i = 0; i < run.checked.size(); ++i) {
    const channel::TensorDesc& desc = run.checked[i];
    belfry_tensor& tensor = run.inputs[i];
    tensor = {};
    tensor.dtype = desc.dtype;
    tensor.rank = desc.rank;
    static_assert(sizeof tensor.dims == sizeof desc.dims);
    memcpy(tensor.dims, desc.dims, sizeof tensor.dims);
    tensor.data = input.data() + desc.offset;
    tensor.bytes = desc.bytes;
  }
  belfry_call& call = run.call;
  call.inputs = run.inputs.data();
  call.input_count = static_cast<uint32_t>(run.checked.size());
  call.buffers = nullptr;
  call.buffer_count = 0;
  call.output_memory = output.data();
  call.output_memory_bytes = output.size();
  call.outputs = run.outputs.data();
  call.output_capacity = kMaxTensors;
  call.error.text[0] = '\0';
  call.done = &Executor::OnDone;
  call.user = &run;
}

void Executor::OnDone(belfry_call* call, belfry_outcome outcome, int last) {
  Run& run = *static_cast<Run*>(call->user);
  std::string_view message;
  if (outcome != BELFRY_OK) {
    message = {call->error.text, strnlen(call->error.text, sizeof call->error.text)};
    if (message.empty()) message = "the driver gave no reason";
  }
  run.executor->Publish(run, FromDriver(outcome), message, last != 0);
}

void Executor::WriteOutputs(const Run& run, SlotControl& control, Outcome* outcome) {
  const belfry_call& call = run.call;
  control.output_count = 0;
  if (*outcome != Outcome::kOk) return;
  if (call.output_count > kMaxTensors) {
    *outcome = Outcome::kCardError;
    return;
  }
  // Only translated: the driver shares this process, so that a check here would
  // guard nothing. belfryd checks every field before it trusts one.
  const auto base = reinterpret_cast<uintptr_t>(call.output_memory);
  for (uint32_t i = 0; i < call.output_count; ++i) {
    const belfry_tensor& tensor = call.outputs[i];
    channel::TensorDesc& desc = control.outputs[i];
    desc.dtype = tensor.dtype;
    desc.rank = tensor.rank;
    memset(desc.reserved, 0, sizeof desc.reserved);
    memcpy(desc.dims, tensor.dims, sizeof desc.dims);
    desc.offset = reinterpret_cast<uintptr_t>(tensor.data) - base;
    desc.bytes = tensor.bytes;
  }
  control.output_count = call.output_count;
}

void Executor::Publish(Run& run, Outcome outcome, std::string_view message, bool last) {
  SlotControl& control = mapping_->control(run.slot);
  WriteOutputs(run, control, &outcome);
  if (outcome == Outcome::kCardError && message.empty()) {
    message = "the driver described more outputs than fit";
  }
  message = Cut(message, channel::kMaxMessage);
  if (!message.empty()) memcpy(control.message, message.data(), message.size());
  control.message_size = static_cast<uint32_t>(message.size());
  control.done_sequence = run.sequence;
  control.outcome = static_cast<uint32_t>(outcome);
  control.flags = last ? channel::kLast : 0;
  control.start_ns = run.start_ns;
  control.end_ns = NowNs();
  control.cycles = run.call.cycles;
  if (last) run.use.Release();
  // With this store belfryd owns the slot (and with 'last' may submit into it
  // again): nothing of the run is touched after it.
  const uint32_t slot = run.slot;
  control.state.store(static_cast<uint32_t>(SlotState::kDone), std::memory_order_release);
  front_bell_.Ring();
  if (!last) {
    AwaitTaken(slot);
    return;
  }
  if (in_flight_.fetch_sub(1) == 1 && stopping_.load()) card_bell_.RingAlways();
}

void Executor::AwaitTaken(uint32_t slot) {
  const SlotControl& control = mapping_->control(slot);
  if (std::this_thread::get_id() == thread_.get_id()) {
    for (;;) {
      const uint32_t ticket = card_bell_.Ticket();
      if (StateOf(control) == SlotState::kRunning) return;
      if (streams_waiting_.load() != 0) NotifyTaken();
      card_bell_.Wait(ticket, absl::InfiniteDuration(), spin_);
    }
  }
  absl::MutexLock lock(&stream_mutex_);
  streams_waiting_.fetch_add(1);
  // The execution thread may have gone to sleep before it knew of this wait.
  card_bell_.Ring();
  while (StateOf(control) != SlotState::kRunning) stream_taken_.Wait(&stream_mutex_);
  streams_waiting_.fetch_sub(1);
}

void Executor::NotifyTaken() {
  absl::MutexLock lock(&stream_mutex_);
  stream_taken_.SignalAll();
}

}  // namespace belfry::card
