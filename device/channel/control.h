// The control channel between belfryd and a belfry-card: rare commands as JSON
// over a SOCK_SEQPACKET socket pair, one object a message. README.md specifies
// every field.
#ifndef BELFRY_DEVICE_CHANNEL_CONTROL_H_
#define BELFRY_DEVICE_CHANNEL_CONTROL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace belfry::channel {

inline constexpr size_t kMaxControlBytes = 64 << 10;  // of one message

enum class Op { kLoad, kWarm, kUnload, kMemory, kShutdown };
std::string_view OpName(Op op);  // "load"

// belfryd -> card. Fields that an op does not use are empty.
struct Request {
  uint64_t id = 0;  // echoed; not 0; unique among requests under way
  Op op = Op::kMemory;
  uint32_t executable = 0;  // load, warm, unload
  std::string dir;          // load: the artifact's folder, absolute …
  std::string builtin;      // … or a built-in model; exactly one of the two
  std::string label;        // load: "card-fraud/1", for logs
  // warm: values of the symbols, one execution each.
  std::vector<std::vector<std::pair<std::string, int64_t>>> shapes;
};

// card -> belfryd, one for each request.
struct Reply {
  // 0: the answer to a message whose id could not be told, or, instead of the
  // hello, why the card could not be opened.
  uint64_t id = 0;
  absl::Status status;          // any code but OK comes with a text
  uint64_t resident_bytes = 0;  // load: card memory that the executable holds
  // Of the whole card, after the request.
  uint64_t memory_used = 0;
  uint64_t memory_total = 0;
};

// card -> belfryd, once, as the first message: the driver is open.
struct Hello {
  std::string driver;  // "cpu"
  int pid = 0;
  std::map<std::string, std::string> describe;  // "torch" -> "2.13.0+cpu"
};

// What EncodeX gives, ParseX takes. Strings that are not UTF-8 come out with
// the replacement character; texts too long for a message are cut.
std::string EncodeRequest(const Request& request);
std::string EncodeReply(const Reply& reply);
std::string EncodeHello(const Hello& hello);

// Any bytes give a value or INVALID_ARGUMENT that names the field; unknown
// fields are ignored.
absl::StatusOr<Request> ParseRequest(std::string_view message);
absl::StatusOr<Reply> ParseReply(std::string_view message);
absl::StatusOr<Hello> ParseHello(std::string_view message);

// The id of a message that is wrong otherwise, as far as it can be told; 0 if
// not. For the answer to it.
uint64_t MessageId(std::string_view message);

// A driver's describe() text: a JSON object of strings.
absl::StatusOr<std::map<std::string, std::string>> ParseDescribe(std::string_view json);

// One end of the socket pair; owns the descriptor. Send and Receive may be
// called at the same time from two threads, each from one.
class ControlSocket {
 public:
  // Both ends, close-on-exec.
  static absl::StatusOr<std::pair<ControlSocket, ControlSocket>> CreatePair();

  ControlSocket() = default;
  explicit ControlSocket(int fd) : fd_(fd) {}
  ControlSocket(ControlSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ControlSocket& operator=(ControlSocket&& other) noexcept;
  ~ControlSocket();

  int fd() const { return fd_; }

  // UNAVAILABLE: the other side is gone. DEADLINE_EXCEEDED: its queue stays
  // full. INVALID_ARGUMENT: longer than kMaxControlBytes. Never SIGPIPE.
  absl::Status Send(std::string_view message, absl::Duration timeout);

  // One whole message. UNAVAILABLE: the other side closed its end or died (or
  // sent an empty message, which looks the same). DEADLINE_EXCEEDED: nothing came
  // in time. INVALID_ARGUMENT: one longer than kMaxControlBytes came and was
  // thrown away.
  absl::StatusOr<std::string> Receive(absl::Duration timeout);

  // Ends both directions: a Receive() under way on either side returns
  // UNAVAILABLE. Any thread.
  void Shutdown();

 private:
  int fd_ = -1;
};

}  // namespace belfry::channel

#endif  // BELFRY_DEVICE_CHANNEL_CONTROL_H_
