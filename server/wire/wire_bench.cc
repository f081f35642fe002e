// What a request costs before it reaches a queue, and an answer before it
// reaches gRPC. Not part of the tests; README.md of this room has the figures.
#include <benchmark/benchmark.h>

#include <google/protobuf/arena.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <cstring>
#include <string>
#include <vector>

#include "proto/open_inference.pb.h"
#include "server/wire/copy.h"
#include "server/wire/decode.h"
#include "server/wire/encode.h"
#include "server/wire/test_messages.h"
#include "server/wire/validate.h"

namespace belfry::wire {
namespace {

Signature OneInput() {
  Signature s;
  TensorSpec x;
  x.name = "x";
  x.dtype = DataType::kFp32;
  x.dims = {{.kind = Dim::Kind::kSymbol, .size = 0, .text = "batch"},
            {.kind = Dim::Kind::kFixed, .size = 30, .text = ""}};
  x.batch_axis = 0;
  s.inputs = {x};
  s.outputs = {x};
  s.outputs[0].name = "y";
  s.symbols = {{"batch", {1, 1024}}};
  s.batchable = true;
  s.batch_symbol = "batch";
  return s;
}

std::string Message(int64_t rows, bool typed, bool parameters) {
  inference::ModelInferRequest r;
  r.set_model_name("credit-risk");
  r.set_id("4711");
  auto* input = AddInput(&r, "x", "FP32", {rows, 30});
  const std::vector<float> values(static_cast<size_t>(rows) * 30, 0.5f);
  if (typed) {
    for (const float v : values) input->mutable_contents()->add_fp32_contents(v);
  } else {
    r.add_raw_input_contents(RawOf(values));
  }
  r.add_outputs()->set_name("y");
  if (parameters) {
    (*r.mutable_parameters())["priority"].set_uint64_param(1);
    (*r.mutable_parameters())["timeout"].set_int64_param(100000);
  }
  return r.SerializeAsString();
}

grpc::ByteBuffer BufferOf(const std::string& bytes, size_t step) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += step) slices.emplace_back(bytes.substr(at, step));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

void DecodeAndValidate(benchmark::State& state, const std::string& bytes, size_t step) {
  const Signature signature = OneInput();
  const grpc::ByteBuffer buffer = BufferOf(bytes, step);
  for (auto _ : state) {
    auto request = DecodeInferRequest(buffer);  // copies the handle, not the bytes
    auto binding = Validate("credit-risk", "1", signature, &*request);
    if (!binding.ok()) state.SkipWithError("refused");
    benchmark::DoNotOptimize(binding);
  }
}

void BM_DecodeRaw(benchmark::State& state) {
  DecodeAndValidate(state, Message(state.range(0), false, false), 1 << 30);
}
BENCHMARK(BM_DecodeRaw)->Arg(1)->Arg(1024);

void BM_DecodeRawInSlices(benchmark::State& state) {
  DecodeAndValidate(state, Message(state.range(0), false, false), 8192);
}
BENCHMARK(BM_DecodeRawInSlices)->Arg(1024);

void BM_DecodeRawWithParameters(benchmark::State& state) {
  DecodeAndValidate(state, Message(1, false, true), 1 << 30);
}
BENCHMARK(BM_DecodeRawWithParameters);

void BM_DecodeTyped(benchmark::State& state) {
  DecodeAndValidate(state, Message(state.range(0), true, false), 1 << 30);
}
BENCHMARK(BM_DecodeTyped)->Arg(1)->Arg(1024);

// The yardstick: what gRPC would do for a typed handler (no checks at all).
void BM_Generated(benchmark::State& state) {
  grpc::ByteBuffer buffer = BufferOf(Message(state.range(0), false, false), 1 << 30);
  for (auto _ : state) {
    grpc::ByteBuffer copy = buffer;
    inference::ModelInferRequest request;
    if (!grpc::SerializationTraits<inference::ModelInferRequest>::Deserialize(&copy, &request)
             .ok()) {
      state.SkipWithError("refused");
    }
    benchmark::DoNotOptimize(request);
  }
}
BENCHMARK(BM_Generated)->Arg(1)->Arg(1024);

void BM_GeneratedOnArena(benchmark::State& state) {
  grpc::ByteBuffer buffer = BufferOf(Message(state.range(0), false, false), 1 << 30);
  for (auto _ : state) {
    grpc::ByteBuffer copy = buffer;
    google::protobuf::Arena arena;
    auto* request = google::protobuf::Arena::CreateMessage<inference::ModelInferRequest>(&arena);
    if (!grpc::SerializationTraits<inference::ModelInferRequest>::Deserialize(&copy, request)
             .ok()) {
      state.SkipWithError("refused");
    }
    benchmark::DoNotOptimize(request);
  }
}
BENCHMARK(BM_GeneratedOnArena)->Arg(1)->Arg(1024);

void BM_Encode(benchmark::State& state) {
  for (auto _ : state) {
    std::vector<ResponseTensor> tensors;
    for (int64_t i = 0; i < state.range(1); ++i) {
      tensors.push_back({.name = "y", .dtype = DataType::kFp32, .shape = {state.range(0) / 4},
                         .data = OutputBuffer(static_cast<size_t>(state.range(0)))});
    }
    benchmark::DoNotOptimize(
        EncodeInferResponse("credit-risk", "1", "4711", std::move(tensors)));
  }
}
BENCHMARK(BM_Encode)->ArgsProduct({{4, 256, 1000, 1024, 1028, 4096, 16384, 1 << 20}, {1, 2}});

void BM_CopyInRows(benchmark::State& state) {  // [7, rows, 220] into a batch of 64, axis 1
  const std::vector<int64_t> shape = {7, 64, 220}, extent = {7, state.range(0), 220};
  const std::vector<int64_t> origin = {0, 0, 0};
  std::vector<uint8_t> arena(7 * 64 * 220 * 4), wire(7 * 220 * 4 * state.range(0));
  Payload payload;
  payload.segments.push_back({wire.data(), wire.size()});
  payload.size = wire.size();
  for (auto _ : state) {
    CopyIn(payload, extent, 1, 0, DataType::kFp32, arena.data(), {shape, origin, extent});
    benchmark::DoNotOptimize(arena.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(wire.size()));
}
BENCHMARK(BM_CopyInRows)->Arg(1)->Arg(64);

void BM_FillOutside(benchmark::State& state) {  // pads a batch from 33 rows to 64
  const std::vector<int64_t> shape = {7, 64, 220}, extent = {7, 33, 220}, origin = {0, 0, 0};
  std::vector<uint8_t> arena(7 * 64 * 220 * 4);
  for (auto _ : state) {
    FillOutside(arena.data(), DataType::kFp32, {shape, origin, extent}, 1.5);
    benchmark::DoNotOptimize(arena.data());
  }
}
BENCHMARK(BM_FillOutside);

}  // namespace
}  // namespace belfry::wire

BENCHMARK_MAIN();
