#include "server/cards/answer.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "device/channel/check.h"
#include "server/telemetry/log.h"

namespace belfry::cards {
namespace {

using channel::Outcome;

// The other process may write at any time: exactly one load, and the compiler
// must not repeat it.
template <typename T>
T ReadOnce(const T& shared) {
  return *const_cast<const volatile T*>(&shared);
}

std::string ReadMessage(const channel::SlotControl& control, uint32_t size) {
  std::string text(size, '\0');
  for (uint32_t i = 0; i < size; ++i) text[i] = ReadOnce(control.message[i]);
  return text.empty() ? "no reason given" : telemetry::Sanitize(text, channel::kMaxMessage);
}

// Clamped in uint64: the card may write any number.
MonoNs ClampTime(uint64_t value, MonoNs low, MonoNs high) {
  if (value > static_cast<uint64_t>(high)) return high;
  return std::max(low, static_cast<MonoNs>(value));
}

absl::Status Nonsense(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("answers nonsense: ", what));
}

}  // namespace

absl::StatusOr<BatchResult> ReadAnswer(const channel::SlotControl& control,
                                       const ExpectedAnswer& expected) {
  const uint64_t sequence = ReadOnce(control.done_sequence);
  if (sequence != expected.sequence) {
    return Nonsense(absl::StrCat("sequence ", sequence, ", expected ", expected.sequence));
  }
  const uint32_t outcome = ReadOnce(control.outcome);
  const uint32_t flags = ReadOnce(control.flags);
  if (flags != channel::kLast) {
    return Nonsense(absl::StrCat("flags ", flags, ", expected ", channel::kLast,
                                 " (the batch's only answer)"));
  }
  const uint32_t message_size = ReadOnce(control.message_size);
  if (message_size > channel::kMaxMessage) {
    return Nonsense(absl::StrCat("a message of ", message_size, " bytes, expected at most ",
                                 channel::kMaxMessage));
  }

  BatchResult result;
  result.start_ns = ClampTime(ReadOnce(control.start_ns), expected.submitted, expected.now);
  result.end_ns = ClampTime(ReadOnce(control.end_ns), result.start_ns, expected.now);
  result.cycles = ReadOnce(control.cycles);
  switch (static_cast<Outcome>(outcome)) {
    case Outcome::kOk: {
      const absl::Status outputs =
          channel::CopyChecked(control.outputs, ReadOnce(control.output_count),
                               expected.arena_bytes, &result.outputs);
      if (!outputs.ok()) return Nonsense(absl::StrCat("output ", outputs.message()));
      result.outcome = BatchOutcome::kOk;
      return result;
    }
    case Outcome::kModelError:
      result.outcome = BatchOutcome::kModelError;
      result.status = absl::InternalError(ReadMessage(control, message_size));
      return result;
    case Outcome::kNoExecutable:
      result.outcome = BatchOutcome::kNoExecutable;
      result.status = absl::FailedPreconditionError(ReadMessage(control, message_size));
      return result;
    case Outcome::kBadRequest:
      // Ours to answer for, or the card overwrote what it was given. The rows
      // are not to blame less on another card, so they are not run again.
      result.outcome = BatchOutcome::kModelError;
      result.status = absl::InternalError(
          absl::StrCat("the card refused the batch: ", ReadMessage(control, message_size)));
      return result;
    case Outcome::kOutputTooLarge:
      result.outcome = BatchOutcome::kOutputTooLarge;
      result.status = absl::ResourceExhaustedError(ReadMessage(control, message_size));
      return result;
    case Outcome::kCardError:
      return absl::UnavailableError(
          absl::StrCat("reports a card error: ", ReadMessage(control, message_size)));
  }
  return Nonsense(absl::StrCat("outcome ", outcome, ", which is not known"));
}

}  // namespace belfry::cards
