#include "server/rpc/model_config.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/rpc/metadata.h"
#include "server/scheduling/model_queue.h"

namespace belfry::rpc {
namespace {

inference::DataType ConfigType(DataType type) {
  switch (type) {
    case DataType::kBool:
      return inference::TYPE_BOOL;
    case DataType::kUint8:
      return inference::TYPE_UINT8;
    case DataType::kUint16:
      return inference::TYPE_UINT16;
    case DataType::kUint32:
      return inference::TYPE_UINT32;
    case DataType::kUint64:
      return inference::TYPE_UINT64;
    case DataType::kInt8:
      return inference::TYPE_INT8;
    case DataType::kInt16:
      return inference::TYPE_INT16;
    case DataType::kInt32:
      return inference::TYPE_INT32;
    case DataType::kInt64:
      return inference::TYPE_INT64;
    case DataType::kFp16:
      return inference::TYPE_FP16;
    case DataType::kBf16:
      return inference::TYPE_BF16;
    case DataType::kFp32:
      return inference::TYPE_FP32;
    case DataType::kFp64:
      return inference::TYPE_FP64;
    case DataType::kBytes:
      return inference::TYPE_STRING;
    case DataType::kInvalid:
      break;
  }
  return inference::TYPE_INVALID;
}

// The extension knows batching along the first axis only. For any other axis
// max_batch_size stays 0, so that clients do not add a dimension in front.
bool BatchesAlongFirstAxis(const Signature& signature) {
  const auto first = [](const TensorSpec& spec) { return spec.batch_axis == 0; };
  return signature.batchable && !signature.any_tensor &&
         std::all_of(signature.inputs.begin(), signature.inputs.end(), first) &&
         std::all_of(signature.outputs.begin(), signature.outputs.end(), first);
}

template <typename Tensor>
void FillTensor(const TensorSpec& spec, bool any, bool drop_first, Tensor* out) {
  out->set_name(spec.name);
  if (any) return;
  out->set_data_type(ConfigType(spec.dtype));
  for (size_t i = drop_first ? 1 : 0; i < spec.dims.size(); ++i) {
    out->add_dims(WireDim(spec.dims[i]));
  }
}

void FillBatching(const scheduling::QueueOptions& queue, inference::ModelConfig* config) {
  if (!queue.join) return;
  auto* batching = config->mutable_dynamic_batching();
  for (int64_t size : queue.limits.buckets) {
    batching->add_preferred_batch_size(static_cast<int32_t>(std::min<int64_t>(size, INT32_MAX)));
  }
  batching->set_max_queue_delay_microseconds(static_cast<uint64_t>(queue.limits.delay / 1000));
  batching->set_priority_levels(3);
  batching->set_default_priority_level(queue.default_priority);
  auto* policy = batching->mutable_default_queue_policy();
  policy->set_timeout_action(inference::ModelQueuePolicy::REJECT);
  policy->set_allow_timeout_override(true);
  policy->set_max_queue_size(
      static_cast<uint32_t>(std::clamp<int64_t>(queue.max_queue, 0, UINT32_MAX)));
  if (queue.default_deadline != kNever) {
    policy->set_default_timeout_microseconds(static_cast<uint64_t>(queue.default_deadline / 1000));
  }
}

void Set(inference::ModelConfig* config, const std::string& key, std::string value) {
  if (value.empty()) return;
  (*config->mutable_parameters())["belfry." + key].set_string_value(std::move(value));
}

std::string RangeText(const SymbolRange& range) {
  return absl::StrCat(range.min, "..",
                      range.max == INT64_MAX ? std::string() : absl::StrCat(range.max));
}

void FillParameters(const Signature& signature, const scheduling::QueueOptions* queue,
                    inference::ModelConfig* config) {
  Set(config, "batchable", signature.batchable ? "true" : "false");
  Set(config, "unbatched_reason", signature.unbatched_reason);
  Set(config, "batch_symbol", signature.batch_symbol);
  if (signature.fixed_batch > 0) Set(config, "fixed_batch", absl::StrCat(signature.fixed_batch));
  for (const auto& [symbol, range] : signature.symbols) {
    Set(config, "symbol." + symbol, RangeText(range));
  }
  for (const auto* tensors : {&signature.inputs, &signature.outputs}) {
    for (const auto& spec : *tensors) {
      Set(config, "shape." + spec.name, DescribeTensor(spec, signature.any_tensor));
      if (spec.batch_axis < 0) continue;
      Set(config, "batch_axis." + spec.name, absl::StrCat(spec.batch_axis));
    }
  }
  if (queue == nullptr) return;
  Set(config, "max_rows", absl::StrCat(queue->limits.max_rows));
  if (queue->limits.exact_executed > 0) {
    Set(config, "executed_rows", absl::StrCat(queue->limits.exact_executed));
  }
  for (const auto& [symbol, sizes] : queue->buckets) {
    Set(config, "buckets." + symbol, absl::StrJoin(sizes, ","));
  }
}

// One group for each kind of card that holds the version.
void FillInstanceGroups(const Backend& backend, const serving::VersionStatus& status,
                        inference::ModelConfig* config) {
  std::map<std::string, int> count;
  for (const cards::Card* card : backend.pool->cards()) {
    const bool holds =
        std::find(status.cards.begin(), status.cards.end(), card->name()) != status.cards.end();
    if (holds) ++count[card->driver()];
  }
  for (const auto& [driver, n] : count) {
    auto* group = config->add_instance_group();
    group->set_name(driver);
    group->set_count(n);
    group->set_kind(driver == "cpu" ? inference::ModelInstanceGroup::KIND_CPU
                                    : inference::ModelInstanceGroup::KIND_MODEL);
  }
}

}  // namespace

void FillConfig(const serving::VersionEntry& entry, const Signature& signature,
                const scheduling::QueueOptions* queue, inference::ModelConfig* config) {
  config->set_name(entry.model);
  config->set_platform(entry.platform);
  config->set_backend("belfry");
  const bool drop_first = queue != nullptr && queue->join && BatchesAlongFirstAxis(signature);
  if (drop_first) {
    config->set_max_batch_size(
        static_cast<int32_t>(std::min<int64_t>(queue->limits.max_rows, INT32_MAX)));
  }
  for (const auto& spec : signature.inputs) {
    FillTensor(spec, signature.any_tensor, drop_first, config->add_input());
  }
  for (const auto& spec : signature.outputs) {
    FillTensor(spec, signature.any_tensor, drop_first, config->add_output());
  }
  if (queue != nullptr) FillBatching(*queue, config);
  FillParameters(signature, queue, config);
}

absl::Status DescribeConfig(const Backend& backend, const inference::ModelConfigRequest& request,
                            inference::ModelConfigResponse* response) {
  const auto found = backend.catalog->Find(request.name(), request.version());
  if (!found.ok()) return found.status();
  const serving::VersionEntry& entry = **found;
  const auto signature = SignatureOf(entry);
  if (!signature.ok()) return signature.status();
  auto* config = response->mutable_config();
  FillConfig(entry, **signature, entry.queue == nullptr ? nullptr : &entry.queue->options(),
             config);
  const auto status = backend.manager->Status(entry.model, entry.version);
  if (!status.ok()) return absl::OkStatus();  // unloaded just now: the rest still holds
  if (!status->path.empty()) config->set_default_model_filename("model.pt2");
  Set(config, "version", entry.version);
  Set(config, "artifact", status->key);
  Set(config, "cards", absl::StrJoin(status->cards, ","));
  FillInstanceGroups(backend, *status, config);
  return absl::OkStatus();
}

}  // namespace belfry::rpc
