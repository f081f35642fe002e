#include "server/scheduling/batch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "device/channel/text.h"
#include "server/base/checked.h"
#include "server/wire/copy.h"

namespace belfry::scheduling {
namespace {

using channel::TensorDesc;
using wire::Shape;

constexpr int64_t kHuge = INT64_MAX / 4;

int64_t AlignUp(int64_t n) {
  constexpr int64_t align = channel::kTensorAlign;
  return n > kHuge ? kHuge : (n + align - 1) / align * align;
}

// The value of a symbol other than the batch symbol; 0 if no input tells it.
int64_t SymbolValue(const Job& job, const std::string& name, bool padded) {
  const Signature& signature = job.queue->options().signature;
  const auto& values =
      padded && !job.padded_symbols.empty() ? job.padded_symbols : job.binding.symbols;
  size_t i = 0;
  for (const auto& [symbol, range] : signature.symbols) {
    if (symbol == signature.batch_symbol) continue;
    if (symbol == name) return i < values.size() ? values[i] : 0;
    ++i;
  }
  return 0;
}

// The axis along which this job's tensors are cut and joined; -1: it is run
// whole, whatever axes the signature speaks of.
int BatchAxis(const Job& job, const TensorSpec& spec) {
  const Signature& signature = job.queue->options().signature;
  if (!signature.batchable) return -1;
  if (signature.any_tensor) return job.binding.joinable ? 0 : -1;
  return spec.batch_axis;
}

// Shape of an input as executed: batch axis and padded symbols replaced.
Shape ExecutedInput(const Job& job, size_t input, int64_t executed) {
  const TensorSpec& spec = job.queue->options().signature.inputs[input];
  Shape shape = job.request.inputs[input].shape;
  const int axis = BatchAxis(job, spec);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int>(d) == axis) {
      shape[d] = executed;
    } else if (d < spec.dims.size() && spec.dims[d].kind == Dim::Kind::kSymbol) {
      const int64_t value = SymbolValue(job, spec.dims[d].text, /*padded=*/true);
      if (value > 0) shape[d] = value;
    }
  }
  return shape;
}

// Shape of an output that one job receives, given what was executed.
Shape JobOutput(const Job& job, size_t output, const TensorDesc& desc) {
  const Signature& signature = job.queue->options().signature;
  if (signature.any_tensor) return job.request.inputs[0].shape;
  const TensorSpec& spec = signature.outputs[output];
  Shape shape(desc.dims, desc.dims + desc.rank);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int>(d) == BatchAxis(job, spec)) {
      shape[d] = job.binding.rows;
    } else if (spec.dims[d].kind == Dim::Kind::kSymbol) {
      const int64_t value = SymbolValue(job, spec.dims[d].text, /*padded=*/false);
      if (value > 0) shape[d] = value;
    }
  }
  return shape;
}

int64_t Bytes(const Shape& shape, DataType dtype) {
  const auto elements = CheckedElementCount(shape);
  if (!elements) return kHuge;
  return CheckedMul(*elements, static_cast<int64_t>(DataTypeSize(dtype))).value_or(kHuge);
}

// Bytes of an output as executed, 0 where the signature cannot tell.
int64_t ExecutedOutputBytes(const Job& job, size_t output, int64_t executed) {
  const TensorSpec& spec = job.queue->options().signature.outputs[output];
  Shape shape;
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    if (static_cast<int>(d) == BatchAxis(job, spec)) {
      shape.push_back(executed);
    } else if (spec.dims[d].kind == Dim::Kind::kFixed) {
      shape.push_back(spec.dims[d].size);
    } else {
      const int64_t value = spec.dims[d].kind == Dim::Kind::kSymbol
                                ? SymbolValue(job, spec.dims[d].text, /*padded=*/true)
                                : 0;
      if (value <= 0) return 0;
      shape.push_back(value);
    }
  }
  return Bytes(shape, spec.dtype);
}

// Whether a job's executed size may differ from its own number of rows.
bool Cuttable(const Job& job) {
  return job.queue->options().signature.batchable && job.binding.joinable;
}

bool Wanted(const Job& job, std::string_view output) {
  const auto& asked = job.request.outputs;
  return asked.empty() || std::any_of(asked.begin(), asked.end(),
                                      [&](const auto& o) { return o.name == output; });
}

absl::Status AnswerTooLarge(const QueueOptions& options) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "model '", options.model, "' version ", options.version, ": the answer has more than ",
      options.max_answer_bytes, " bytes (--max-message-mb); ask for fewer rows or outputs"));
}

std::string ShapeText(std::span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

bool HasExpressions(const std::vector<TensorSpec>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const TensorSpec& spec) {
    return std::any_of(spec.dims.begin(), spec.dims.end(),
                       [](const Dim& d) { return d.kind == Dim::Kind::kExpression; });
  });
}

}  // namespace

Footprint FootprintOf(const Job& job, int64_t rows) {
  const Signature& signature = job.queue->options().signature;
  Footprint f;
  if (signature.any_tensor) {
    const wire::RequestTensor& in = job.request.inputs[0];
    f.input_bytes = in.dtype == DataType::kBytes
                        ? AlignUp(static_cast<int64_t>(in.payload.size))
                        : AlignUp(Bytes(ExecutedInput(job, 0, rows), in.dtype));
    f.output_bytes = f.input_bytes;
    return f;
  }
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    f.input_bytes += AlignUp(Bytes(ExecutedInput(job, i, rows), signature.inputs[i].dtype));
    f.input_bytes = std::min(f.input_bytes, kHuge);
  }
  for (size_t o = 0; o < signature.outputs.size(); ++o) {
    f.output_bytes += AlignUp(ExecutedOutputBytes(job, o, rows));
    f.output_bytes = std::min(f.output_bytes, kHuge);
  }
  return f;
}

int64_t RoomFor(const Job& job, int64_t input_capacity, int64_t output_capacity) {
  const auto fits = [&](int64_t rows) {
    const Footprint f = FootprintOf(job, rows);
    return f.input_bytes <= input_capacity && f.output_bytes <= output_capacity;
  };
  if (!Cuttable(job)) return fits(job.binding.rows) ? job.binding.rows : 0;
  const BatchLimits& limits = job.queue->options().limits;
  int64_t most = std::max(limits.max_rows, limits.exact_executed);
  if (!limits.buckets.empty()) most = std::max(most, limits.buckets.back());
  most = std::max(most, limits.min_executed);
  if (fits(most)) return most;  // the usual case, one look
  int64_t low = 0;
  while (low < most) {
    const int64_t middle = low + (most - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      most = middle - 1;
    }
  }
  return low;
}

absl::Status CheckFits(const Job& job, int64_t input_capacity, int64_t output_capacity) {
  const QueueOptions& options = job.queue->options();
  int64_t answer = 0;
  for (size_t o = 0; o < options.signature.outputs.size(); ++o) {
    if (options.signature.any_tensor || !Wanted(job, options.signature.outputs[o].name)) continue;
    answer = std::min(answer + ExecutedOutputBytes(job, o, job.binding.rows), kHuge);
  }
  if (answer > options.max_answer_bytes) return AnswerTooLarge(options);
  const int64_t room = RoomFor(job, input_capacity, output_capacity);
  const int64_t rows = Cuttable(job) ? ChooseRows(1, room, options.limits) : room;
  if (rows > 0) return absl::OkStatus();
  const int64_t least = Cuttable(job) ? ExecutedRows(1, options.limits) : job.binding.rows;
  const Footprint need = FootprintOf(job, least);
  return absl::ResourceExhaustedError(absl::StrCat(
      "model '", options.model, "' version ", options.version, ": an execution of ", least, " rows needs ", need.input_bytes, " bytes of inputs and ",
      need.output_bytes, " of outputs, a slot of the card holds ", input_capacity, " and ",
      output_capacity));
}

void PlanPadding(Job* job) {
  const QueueOptions& options = job->queue->options();
  // A dimension that only the compiled code understands would change with the
  // padding in a way that nobody here can undo.
  if (options.buckets.empty() || HasExpressions(options.signature.inputs) ||
      HasExpressions(options.signature.outputs)) {
    return;
  }
  wire::Binding& binding = job->binding;
  job->padded_symbols = binding.symbols;
  size_t i = 0;
  for (const auto& [symbol, range] : options.signature.symbols) {
    if (symbol == options.signature.batch_symbol) continue;
    if (i >= binding.symbols.size()) break;
    const auto sizes = options.buckets.find(symbol);
    if (sizes != options.buckets.end()) {
      const auto& s = sizes->second;
      const auto bucket = std::lower_bound(s.begin(), s.end(), binding.symbols[i]);
      if (bucket != s.end()) job->padded_symbols[i] = *bucket;
    }
    ++i;
  }
  job->group_key = absl::StrCat("p ", absl::StrJoin(job->padded_symbols, ","));
}

Batch::Batch(std::shared_ptr<ModelQueue> queue, Taken taken, MonoNs formed)
    : queue_(std::move(queue)),
      parts_(std::move(taken.parts)),
      rows_(taken.rows),
      formed_(formed) {}

bool Batch::Agrees(const Part& part) const {
  const Job& head = *parts_.front().job;
  const Job& job = *part.job;
  for (size_t i = 0; i < head.request.inputs.size(); ++i) {
    if (ExecutedInput(job, i, executed_) != ExecutedInput(head, i, executed_)) return false;
    if (job.request.inputs[i].dtype != head.request.inputs[i].dtype) return false;
  }
  return true;
}

std::vector<Part> Batch::CopyIn(std::span<uint8_t> arena) {
  const BatchLimits& limits = queue_->options().limits;
  const Job& head = *parts_.front().job;
  executed_ = Cuttable(head) ? ExecutedRows(rows_, limits) : head.binding.rows;

  std::vector<Part> odd;
  if (parts_.size() > 1 && HasExpressions(queue_->options().signature.inputs)) {
    const auto first_odd = std::stable_partition(
        parts_.begin() + 1, parts_.end(), [&](const Part& part) { return Agrees(part); });
    std::move(first_odd, parts_.end(), std::back_inserter(odd));
    parts_.erase(first_odd, parts_.end());
    for (const Part& part : odd) rows_ -= part.rows;
    if (Cuttable(head)) executed_ = ExecutedRows(rows_, limits);
  }

  const Signature& signature = queue_->options().signature;
  inputs_.resize(head.request.inputs.size());
  int64_t offset = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const DataType dtype = head.request.inputs[i].dtype;
    const Shape shape = ExecutedInput(head, i, executed_);
    const int axis = BatchAxis(head, signature.inputs[i]);
    const int64_t bytes = dtype == DataType::kBytes
                              ? static_cast<int64_t>(head.request.inputs[i].payload.size)
                              : Bytes(shape, dtype);
    TensorDesc& desc = inputs_[i];
    desc = {};
    desc.dtype = static_cast<uint8_t>(dtype);
    desc.rank = static_cast<uint8_t>(shape.size());
    std::copy(shape.begin(), shape.end(), desc.dims);
    desc.offset = static_cast<uint64_t>(offset);
    desc.bytes = static_cast<uint64_t>(bytes);
    uint8_t* tensor = arena.data() + offset;
    offset += AlignUp(bytes);

    if (dtype == DataType::kBytes) {
      wire::CopyInBytes(head.request.inputs[i].payload, tensor);
      continue;
    }
    const Shape zero(shape.size(), 0);
    const bool symbols_padded = std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
      return !part.job->padded_symbols.empty() &&
             part.job->padded_symbols != part.job->binding.symbols;
    });
    if (symbols_padded) {
      wire::FillOutside(tensor, dtype, {shape, zero, zero}, signature.inputs[i].pad_value);
    } else if (axis >= 0 && executed_ > rows_) {
      Shape real = shape;
      real[axis] = rows_;
      wire::FillOutside(tensor, dtype, {shape, zero, real}, signature.inputs[i].pad_value);
    }
    int64_t row = 0;
    for (const Part& part : parts_) {
      const wire::RequestTensor& source = part.job->request.inputs[i];
      Shape origin = zero;
      Shape extent = source.shape;
      if (axis >= 0) {
        origin[axis] = row;
        extent[axis] = part.rows;
      }
      wire::CopyIn(source.payload, source.shape, axis, part.first_row, dtype, tensor,
                   {shape, origin, extent});
      row += part.rows;
    }
  }
  return odd;
}

absl::Status Batch::CheckOutput(const TensorSpec& spec, const TensorDesc& desc) const {
  const Job& head = *parts_.front().job;
  const auto got = std::span<const int64_t>(desc.dims, desc.rank);
  const auto wrong = [&](std::string_view what) {
    return absl::InternalError(absl::StrCat(
        "model '", queue_->model(), "' version ", queue_->version(), ": output '", spec.name,
        "': the card answered ", AbslView(DataTypeName(static_cast<DataType>(desc.dtype))), " ",
        ShapeText(got), ", ", AbslView(what)));
  };
  if (static_cast<DataType>(desc.dtype) != spec.dtype) {
    return wrong(absl::StrCat("expected ", AbslView(DataTypeName(spec.dtype))));
  }
  if (desc.rank != spec.dims.size()) {
    return wrong(absl::StrCat("expected ", spec.dims.size(), " dimensions"));
  }
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    int64_t expected = got[d];
    if (static_cast<int>(d) == BatchAxis(head, spec)) {
      expected = executed_;
    } else if (spec.dims[d].kind == Dim::Kind::kFixed) {
      expected = spec.dims[d].size;
    } else if (spec.dims[d].kind == Dim::Kind::kSymbol) {
      const int64_t value = SymbolValue(head, spec.dims[d].text, /*padded=*/true);
      if (value > 0) expected = value;
    }
    if (got[d] != expected) {
      return wrong(absl::StrCat("expected ", expected, " in dimension ", d));
    }
  }
  return absl::OkStatus();
}

absl::Status Batch::CheckOutputs(std::span<const TensorDesc> outputs) const {
  const Signature& signature = queue_->options().signature;
  if (outputs.size() != signature.outputs.size()) {
    return absl::InternalError(absl::StrCat("model '", queue_->model(), "' version ",
                                            queue_->version(), ": the card answered ",
                                            outputs.size(), " outputs, expected ",
                                            signature.outputs.size()));
  }
  if (signature.any_tensor) {
    const TensorDesc& in = inputs_[0];
    const TensorDesc& out = outputs[0];
    if (in.dtype != out.dtype || in.rank != out.rank || in.bytes != out.bytes ||
        !std::equal(in.dims, in.dims + in.rank, out.dims)) {
      return absl::InternalError("echo: the card answered another tensor than it was given");
    }
  } else {
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (absl::Status s = CheckOutput(signature.outputs[o], outputs[o]); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::Status Batch::MakeOutputs(Job& job, std::span<const TensorDesc> outputs) const {
  const Signature& signature = queue_->options().signature;
  std::vector<wire::ResponseTensor> tensors(outputs.size());
  int64_t total = 0;
  for (size_t o = 0; o < outputs.size(); ++o) {
    wire::ResponseTensor& tensor = tensors[o];
    tensor.name = signature.outputs[o].name;
    tensor.dtype = static_cast<DataType>(outputs[o].dtype);
    tensor.shape = JobOutput(job, o, outputs[o]);
    if (!Wanted(job, tensor.name)) continue;
    const int64_t bytes = tensor.dtype == DataType::kBytes ? static_cast<int64_t>(outputs[o].bytes)
                                                           : Bytes(tensor.shape, tensor.dtype);
    total += std::min(bytes, kHuge / 256);
    if (total > queue_->options().max_answer_bytes) return AnswerTooLarge(queue_->options());
    tensor.data = wire::OutputBuffer(static_cast<size_t>(bytes));
  }
  job.outputs = std::move(tensors);
  job.outputs_ready = true;
  return absl::OkStatus();
}

absl::Status Batch::CopyOut(const Part& part, int64_t row, std::span<const TensorDesc> outputs,
                            std::span<const uint8_t> arena) const {
  const Signature& signature = queue_->options().signature;
  Job& job = *part.job;
  {
    absl::MutexLock lock(&job.outputs_mutex);
    if (!job.outputs_ready) {
      if (absl::Status s = MakeOutputs(job, outputs); !s.ok()) return s;
    }
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    wire::ResponseTensor& tensor = job.outputs[o];
    if (!Wanted(job, tensor.name)) continue;
    const uint8_t* source = arena.data() + outputs[o].offset;
    if (tensor.dtype == DataType::kBytes) {
      const int64_t elements = CheckedElementCount(tensor.shape).value_or(0);
      if (!wire::CopyOutBytes(source, outputs[o].bytes, elements, tensor.data.data())) {
        return absl::InternalError(absl::StrCat("model '", queue_->model(), "' version ",
                                                queue_->version(), ": output '",
                                                AbslView(tensor.name), "' is no BYTES tensor of ",
                                                elements, " elements"));
      }
      continue;
    }
    const std::span<const int64_t> shape(outputs[o].dims, outputs[o].rank);
    const int axis = BatchAxis(job, signature.outputs[o]);
    Shape origin(shape.size(), 0);
    Shape extent = tensor.shape;
    if (axis >= 0) {
      origin[axis] = row;
      extent[axis] = part.rows;
    }
    // The shape was fixed by the first batch of the request; a later one may
    // differ where only the compiled code knows the size.
    for (size_t d = 0; d < shape.size(); ++d) {
      if (origin[d] + extent[d] > shape[d]) {
        return absl::InternalError(absl::StrCat(
            "model '", queue_->model(), "' version ", queue_->version(), ": output '",
            AbslView(tensor.name), "' has the shape ", ShapeText(shape),
            " in one part of a request and ", ShapeText(tensor.shape), " in all of it"));
      }
    }
    wire::CopyOut(source, {shape, origin, extent}, tensor.dtype, tensor.data.data(), tensor.shape,
                  axis, part.first_row);
  }
  return absl::OkStatus();
}

}  // namespace belfry::scheduling
