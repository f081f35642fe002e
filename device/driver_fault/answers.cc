#include "device/driver_fault/answers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

#include "device/channel/doorbell.h"
#include "device/channel/layout.h"

namespace belfry::fault {
namespace {

using channel::kTensorAlign;

// Copies inputs to outputs; false if they do not fit.
bool Copy(belfry_call* call) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < call->input_count; ++i) {
    const belfry_tensor& in = call->inputs[i];
    if (i >= call->output_capacity || in.bytes > call->output_memory_bytes ||
        at > call->output_memory_bytes - in.bytes) {
      return false;
    }
    call->outputs[i] = in;
    call->outputs[i].data = static_cast<uint8_t*>(call->output_memory) + at;
    if (in.bytes != 0) memcpy(call->outputs[i].data, in.data, in.bytes);
    at += (in.bytes + kTensorAlign - 1) / kTensorAlign * kTensorAlign;
  }
  call->output_count = call->input_count;
  return true;
}

// The channel's mapping in this process, found by its name in /proc: a driver
// has no business there, which is the point.
struct Region {
  uint8_t* begin = nullptr;
  uint8_t* end = nullptr;
};

std::optional<Region> FindChannel() {
  FILE* maps = fopen("/proc/self/maps", "re");
  if (maps == nullptr) return std::nullopt;
  char line[512];
  std::optional<Region> found;
  while (!found && fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0, end = 0;
    if (strstr(line, "memfd:belfry-channel") != nullptr &&
        sscanf(line, "%lx-%lx", &begin, &end) == 2) {
      found = Region{reinterpret_cast<uint8_t*>(begin), reinterpret_cast<uint8_t*>(end)};
    }
  }
  fclose(maps);
  return found;
}

// Answers the running slots in the card's stead, wrongly, and never returns.
[[noreturn]] void Forge(std::string_view fault) {
  if (const auto region = FindChannel()) {
    auto* header = reinterpret_cast<channel::ChannelHeader*>(region->begin);
    auto* controls =
        reinterpret_cast<channel::SlotControl*>(region->begin + sizeof(channel::ChannelHeader));
    for (uint32_t i = 0; i < channel::kSlots; ++i) {
      channel::SlotControl& c = controls[i];
      if (c.state.load() != static_cast<uint32_t>(channel::SlotState::kRunning)) continue;
      c.done_sequence = fault == "bad_sequence" ? c.sequence + 1000 : c.sequence;
      c.outcome = fault == "bad_outcome" ? 99 : static_cast<uint32_t>(channel::Outcome::kOk);
      c.flags = channel::kLast;
      c.output_count = 0;
      c.message_size = fault == "bad_message" ? UINT32_MAX : 0;
      c.state.store(fault == "bad_state" ? 77
                                         : static_cast<uint32_t>(channel::SlotState::kDone));
    }
    channel::Doorbell::OfFront(*header).RingAlways();
  }
  for (;;) pause();
}

// Makes an honest answer lie; false if 'fault' is not known.
bool Spoil(belfry_call* call, std::string_view fault) {
  belfry_tensor& out = call->outputs[0];
  auto* data = static_cast<uint8_t*>(out.data);
  if (fault == "bad_dtype") {
    out.dtype = 200;
  } else if (fault == "bad_rank") {
    out.rank = 255;
  } else if (fault == "negative_dim") {
    out.dims[0] = -out.dims[0];
  } else if (fault == "bad_bytes") {
    out.bytes += 4;
  } else if (fault == "bad_offset") {
    out.data = static_cast<uint8_t*>(call->output_memory) + call->output_memory_bytes;
  } else if (fault == "misaligned") {
    out.data = data + 4;
  } else if (fault == "overlap") {
    call->outputs[1] = out;
    call->output_count = 2;
  } else if (fault == "many_outputs") {
    call->output_count = call->output_capacity + 1;
  } else if (fault == "no_outputs") {
    call->output_count = 0;
  } else if (fault == "wrong_shape") {
    out.bytes -= out.dims[0] == 0 ? 0 : out.bytes / static_cast<uint64_t>(out.dims[0]);
    out.dims[0] -= out.dims[0] == 0 ? 0 : 1;
  } else if (fault == "wrong_data") {
    for (uint64_t i = 0; i < out.bytes; ++i) data[i] = static_cast<uint8_t>(~data[i]);
  } else if (fault == "bad_sequence" || fault == "bad_state" || fault == "bad_outcome" ||
             fault == "bad_message") {
    Forge(fault);
  } else if (fault == "scribble") {
    if (const auto channel = FindChannel()) {
      memset(channel->begin, 0xff, static_cast<size_t>(channel->end - channel->begin));
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace

belfry_outcome Answer(belfry_call* call, std::string_view fault) {
  if (fault == "error" || fault == "card_error" || fault == "too_large") {
    snprintf(call->error.text, sizeof call->error.text, "a fault on purpose: %.*s",
             static_cast<int>(fault.size()), fault.data());
    if (fault == "error") return BELFRY_MODEL_ERROR;
    return fault == "card_error" ? BELFRY_CARD_ERROR : BELFRY_OUTPUT_TOO_LARGE;
  }
  if (!Copy(call)) {
    snprintf(call->error.text, sizeof call->error.text, "the outputs do not fit");
    return BELFRY_OUTPUT_TOO_LARGE;
  }
  if (fault.empty() || Spoil(call, fault)) return BELFRY_OK;
  snprintf(call->error.text, sizeof call->error.text, "unknown fault '%.*s'",
           static_cast<int>(fault.size()), fault.data());
  return BELFRY_MODEL_ERROR;
}

}  // namespace belfry::fault
