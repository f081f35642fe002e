#include "device/card/card_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/channel/check.h"
#include "device/channel/doorbell.h"
#include "gtest/gtest.h"

namespace belfry::card {
namespace {

using channel::SlotControl;
using channel::SlotState;

constexpr int kChannelFd = 30, kControlFd = 31;
constexpr absl::Duration kLong = absl::Seconds(60);

[[noreturn]] void Exec(const std::vector<std::string>& flags) {
  std::vector<char*> argv;
  std::string binary = BELFRY_CARD_BINARY;
  argv.push_back(binary.data());
  for (const std::string& flag : flags) argv.push_back(const_cast<char*>(flag.c_str()));
  argv.push_back(nullptr);
  execv(binary.c_str(), argv.data());
  _exit(127);
}

}  // namespace

TestTensor Floats(std::vector<int64_t> dims, const std::vector<float>& values) {
  TestTensor t{DataType::kFp32, std::move(dims), {}};
  t.data.resize(values.size() * sizeof(float));
  if (!values.empty()) memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}

CardProcess::CardProcess(const std::vector<std::string>& flags, uint64_t input_bytes,
                         uint64_t output_bytes) {
  mapping_ = *channel::Mapping::Create(input_bytes, output_bytes);
  auto pair = *channel::ControlSocket::CreatePair();
  std::vector<std::string> all = flags;
  for (const std::string flag : {"--channel-fd=30", "--control-fd=31"}) all.push_back(flag);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(mapping_->fd(), kChannelFd);
    dup2(pair.second.fd(), kControlFd);
    Exec(all);
  }
  socket_ = std::move(pair.first);
}

CardProcess::~CardProcess() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

absl::StatusOr<channel::Hello> CardProcess::Hello() {
  auto message = socket_.Receive(kLong);
  if (!message.ok()) return message.status();
  return channel::ParseHello(*message);
}

uint64_t CardProcess::Send(channel::Request request) {
  request.id = next_id_++;
  EXPECT_TRUE(socket_.Send(channel::EncodeRequest(request), kLong).ok());
  return request.id;
}

absl::StatusOr<channel::Reply> CardProcess::Receive(absl::Duration timeout) {
  auto message = socket_.Receive(timeout);
  if (!message.ok()) return message.status();
  return channel::ParseReply(*message);
}

channel::Reply CardProcess::Ask(channel::Request request) {
  const uint64_t id = Send(std::move(request));
  auto reply = Receive(kLong);
  if (!reply.ok()) {
    channel::Reply lost;
    lost.status = reply.status();
    return lost;
  }
  EXPECT_EQ(reply->id, id);
  return *reply;
}

channel::Reply CardProcess::Load(uint32_t id, const std::string& dir) {
  channel::Request r;
  r.op = channel::Op::kLoad;
  r.executable = id;
  r.dir = dir;
  r.label = "test/1";
  return Ask(r);
}

channel::Reply CardProcess::LoadEcho(uint32_t id) {
  channel::Request r;
  r.op = channel::Op::kLoad;
  r.executable = id;
  r.builtin = "echo";
  return Ask(r);
}

channel::Reply CardProcess::Unload(uint32_t id) {
  channel::Request r;
  r.op = channel::Op::kUnload;
  r.executable = id;
  return Ask(r);
}

channel::Reply CardProcess::Warm(uint32_t id, int64_t batch) {
  channel::Request r;
  r.op = channel::Op::kWarm;
  r.executable = id;
  r.shapes = {{{"batch", batch}}};
  return Ask(r);
}

void CardProcess::Fill(uint32_t slot, uint32_t executable, const std::vector<TestTensor>& inputs) {
  SlotControl& control = mapping_->control(slot);
  uint64_t at = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TestTensor& t = inputs[i];
    ASSERT_LE(at + t.data.size(), mapping_->input(slot).size());
    channel::TensorDesc& desc = control.inputs[i];
    desc = {};
    desc.dtype = static_cast<uint8_t>(t.dtype);
    desc.rank = static_cast<uint8_t>(t.dims.size());
    for (size_t d = 0; d < t.dims.size(); ++d) desc.dims[d] = t.dims[d];
    desc.offset = at;
    desc.bytes = t.data.size();
    if (!t.data.empty()) memcpy(mapping_->input(slot).data() + at, t.data.data(), t.data.size());
    at += (t.data.size() / channel::kTensorAlign + 1) * channel::kTensorAlign;
  }
  control.input_count = static_cast<uint32_t>(inputs.size());
  control.executable = executable;
  control.sequence = next_sequence_++;
}

void CardProcess::Ring(uint32_t slot) {
  mapping_->control(slot).state.store(static_cast<uint32_t>(SlotState::kSubmitted),
                                      std::memory_order_release);
  channel::Doorbell::OfCard(mapping_->header()).Ring();
}

void CardProcess::Submit(uint32_t slot, uint32_t executable,
                         const std::vector<TestTensor>& inputs) {
  Fill(slot, executable, inputs);
  Ring(slot);
}

bool CardProcess::IsDone(uint32_t slot) {
  return mapping_->control(slot).state.load(std::memory_order_acquire) ==
         static_cast<uint32_t>(SlotState::kDone);
}

std::optional<TestAnswer> CardProcess::Await(uint32_t slot) {
  const auto bell = channel::Doorbell::OfFront(mapping_->header());
  for (;;) {
    const uint32_t ticket = bell.Ticket();
    if (IsDone(slot)) break;
    if (!bell.Wait(ticket, absl::Milliseconds(50)) && waitpid(pid_, nullptr, WNOHANG | WNOWAIT)) {
      return std::nullopt;
    }
  }
  TestAnswer answer = Copy(slot);
  SlotControl& control = mapping_->control(slot);
  control.state.store(
      static_cast<uint32_t>(answer.last ? SlotState::kFree : SlotState::kRunning),
      std::memory_order_release);
  if (!answer.last) channel::Doorbell::OfCard(mapping_->header()).Ring();
  return answer;
}

TestAnswer CardProcess::Copy(uint32_t slot) {
  const SlotControl& control = mapping_->control(slot);
  TestAnswer a;
  a.outcome = static_cast<channel::Outcome>(control.outcome);
  a.sequence = control.done_sequence;
  a.last = (control.flags & channel::kLast) != 0;
  a.message.assign(control.message, std::min(control.message_size, channel::kMaxMessage));
  a.start_ns = control.start_ns;
  a.end_ns = control.end_ns;
  const uint32_t count = std::min(control.output_count, channel::kMaxTensors);
  a.descs.assign(control.outputs, control.outputs + count);
  if (!channel::CheckTensors(a.descs, mapping_->output(slot).size()).ok()) return a;
  for (const channel::TensorDesc& desc : a.descs) {
    const uint8_t* data = mapping_->output(slot).data() + desc.offset;
    a.tensors.push_back({static_cast<DataType>(desc.dtype),
                         std::vector<int64_t>(desc.dims, desc.dims + desc.rank),
                         std::vector<uint8_t>(data, data + desc.bytes)});
  }
  return a;
}

std::optional<TestAnswer> CardProcess::Run(uint32_t executable,
                                           const std::vector<TestTensor>& inputs) {
  Submit(0, executable, inputs);
  return Await(0);
}

int CardProcess::WaitExit() {
  int status = -1;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  return status;
}

Finished RunCard(const std::vector<std::string>& flags) {
  Finished f;
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return f;
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(out[1], STDOUT_FILENO);
    Exec(flags);
  }
  close(out[1]);
  char buffer[4096];
  ssize_t n = 0;
  while ((n = read(out[0], buffer, sizeof buffer)) > 0) {
    f.out.append(buffer, static_cast<size_t>(n));
  }
  close(out[0]);
  waitpid(pid, &f.status, 0);
  return f;
}

}  // namespace belfry::card
