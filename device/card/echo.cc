#include "device/card/echo.h"

#include <cstdio>
#include <cstring>

#include "device/channel/layout.h"

namespace belfry::card {

void EchoExecutable::Submit(belfry_call* call) {
  uint64_t at = 0;
  if (call->input_count > call->output_capacity) {
    std::snprintf(call->error.text, sizeof call->error.text, "%u inputs, expected at most %u",
                  call->input_count, call->output_capacity);
    call->done(call, BELFRY_MODEL_ERROR, 1);
    return;
  }
  for (uint32_t i = 0; i < call->input_count; ++i) {
    const belfry_tensor& in = call->inputs[i];
    if (in.bytes > call->output_memory_bytes || at > call->output_memory_bytes - in.bytes) {
      std::snprintf(call->error.text, sizeof call->error.text,
                    "the outputs take more than the %llu bytes of the output memory",
                    static_cast<unsigned long long>(call->output_memory_bytes));
      call->done(call, BELFRY_OUTPUT_TOO_LARGE, 1);
      return;
    }
    belfry_tensor& out = call->outputs[i];
    out = in;
    out.data = static_cast<uint8_t*>(call->output_memory) + at;
    if (in.bytes != 0) std::memcpy(out.data, in.data, in.bytes);
    at += (in.bytes + channel::kTensorAlign - 1) / channel::kTensorAlign * channel::kTensorAlign;
  }
  call->output_count = call->input_count;
  call->done(call, BELFRY_OK, 1);
}

}  // namespace belfry::card
