// A real belfry-card process for tests, with belfryd's side of its channel.
#ifndef BELFRY_DEVICE_CARD_CARD_PROCESS_H_
#define BELFRY_DEVICE_CARD_CARD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "device/channel/control.h"
#include "device/channel/dtype.h"
#include "device/channel/layout.h"
#include "device/channel/mapping.h"

namespace belfry::card {

struct TestTensor {
  DataType dtype = DataType::kFp32;
  std::vector<int64_t> dims;
  std::vector<uint8_t> data;

  bool operator==(const TestTensor&) const = default;
};

TestTensor Floats(std::vector<int64_t> dims, const std::vector<float>& values);

// What the card wrote into a slot, copied.
struct TestAnswer {
  channel::Outcome outcome = channel::Outcome::kOk;
  uint64_t sequence = 0;
  bool last = false;
  std::string message;
  std::vector<channel::TensorDesc> descs;  // as written, unchecked
  std::vector<TestTensor> tensors;         // if the descriptors are good
  uint64_t start_ns = 0, end_ns = 0;
};

// Owns the process: the destructor kills it. Not thread-safe.
class CardProcess {
 public:
  static constexpr uint64_t kArena = 1 << 20;


  // Starts 'binary' with these flags and a new channel. Fails the test if that
  // is not possible; does not wait for the hello.
  CardProcess(const std::vector<std::string>& flags, uint64_t input_bytes = kArena,
              uint64_t output_bytes = kArena);
  ~CardProcess();

  pid_t pid() const { return pid_; }
  channel::Mapping& mapping() { return *mapping_; }
  channel::ControlSocket& socket() { return socket_; }
  void CloseControl() { socket_ = channel::ControlSocket(); }

  absl::StatusOr<channel::Hello> Hello();

  // Sends and waits for the reply.
  channel::Reply Ask(channel::Request request);
  uint64_t Send(channel::Request request);  // gives the id
  absl::StatusOr<channel::Reply> Receive(absl::Duration timeout);
  channel::Reply Load(uint32_t id, const std::string& dir);
  channel::Reply LoadEcho(uint32_t id);
  channel::Reply Unload(uint32_t id);
  channel::Reply Warm(uint32_t id, int64_t batch);

  // Lays the tensors out in the slot's arena and submits.
  void Submit(uint32_t slot, uint32_t executable, const std::vector<TestTensor>& inputs);
  // Writes the tensors without submitting; for tests that spoil them then.
  void Fill(uint32_t slot, uint32_t executable, const std::vector<TestTensor>& inputs);
  void Ring(uint32_t slot);
  // Waits until the slot is done, copies the answer, frees the slot (or asks for
  // the next answer of a stream). nullopt if the process died.
  std::optional<TestAnswer> Await(uint32_t slot);
  bool IsDone(uint32_t slot);
  std::optional<TestAnswer> Run(uint32_t executable, const std::vector<TestTensor>& inputs);

  // Waits for the end; the status as waitpid tells it.
  int WaitExit();

 private:
  TestAnswer Copy(uint32_t slot);

  pid_t pid_ = -1;
  std::optional<channel::Mapping> mapping_;
  channel::ControlSocket socket_;
  uint64_t next_id_ = 1;
  uint64_t next_sequence_ = 1;
};

// Runs the binary with these flags to its end: exit status and standard output.
struct Finished {
  int status = -1;
  std::string out;
};
Finished RunCard(const std::vector<std::string>& flags);

}  // namespace belfry::card

#endif  // BELFRY_DEVICE_CARD_CARD_PROCESS_H_
