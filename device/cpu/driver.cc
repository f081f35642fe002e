// The driver 'cpu': runs AOTInductor artifacts on the host's processors through
// libtorch. This file speaks the driver interface; README.md tells the rest.
#include "device/driver.h"

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "device/cpu/aoti_model.h"
#include "device/cpu/host.h"
#include "device/manifest/manifest.h"
#include "device/manifest/paths.h"

struct belfry_card {
  int threads;
  uint64_t memory_total;
};

struct belfry_executable {
  std::unique_ptr<belfry::cpu::AotiModel> model;
};

// Memory of the host is memory of the card.
struct belfry_buffer {
  std::unique_ptr<void, decltype(&free)> memory{nullptr, &free};
};

namespace belfry::cpu {
namespace {

constexpr char kDriverVersion[] = "cpu/1";

int Fail(belfry_error* error, const std::string& text) {
  snprintf(error->text, sizeof error->text, "%s", text.c_str());
  return 1;
}

const char* Describe() {
  static const std::string* const text = new std::string(
      absl::StrCat(R"({"driver":")", kDriverVersion, R"(","arch":")", HostArch(), R"(","isa":")",
                   HostIsas().front(), R"(","torch":")", TorchVersion(), R"("})"));
  return text->c_str();
}

int Open(const belfry_card_options* options, belfry_card** card, belfry_error* error) {
  const int threads = std::max(1, options->threads);
  InitTorch(threads);
  const uint64_t host = HostMemoryBytes();
  const uint64_t total = options->memory_bytes == 0 ? host : std::min(host, options->memory_bytes);
  *card = new belfry_card{threads, total};
  return 0;
}

void Close(belfry_card* card) { delete card; }

// Code for another instruction set, or against another libtorch's classes,
// would not fail cleanly but crash or answer wrongly.
std::string WhyNotForThisHost(const Manifest& manifest) {
  auto field = [&](const char* name) {
    const auto it = manifest.key_fields.find(name);
    return it == manifest.key_fields.end() ? std::string() : it->second;
  };
  if (manifest.entry_kind != "aoti") {
    return absl::StrCat("an artifact of kind '", manifest.entry_kind, "', expected 'aoti'");
  }
  const std::pair<const char*, std::string> exact[] = {
      {"driver", kDriverVersion}, {"arch", HostArch()}, {"torch", TorchVersion()}};
  for (const auto& [name, here] : exact) {
    if (field(name) != here) {
      return absl::StrCat("the artifact is for ", name, " '", field(name), "', this is '", here,
                          "'");
    }
  }
  const std::vector<std::string> isas = HostIsas();
  if (std::find(isas.begin(), isas.end(), field("isa")) == isas.end()) {
    return absl::StrCat("the artifact is for isa '", field("isa"), "', this host runs ",
                        absl::StrJoin(isas, ", "));
  }
  return "";
}

int Load(belfry_card* card, const char* dir, belfry_executable** executable,
         belfry_executable_info* info, belfry_error* error) {
  const auto manifest = ReadManifest(dir);
  if (!manifest.ok()) return Fail(error, std::string(manifest.status().message()));
  if (const std::string why = WhyNotForThisHost(*manifest); !why.empty()) return Fail(error, why);
  const auto path = ResolveInside(dir, manifest->entry_path);
  if (!path.ok()) return Fail(error, std::string(path.status().message()));
  std::vector<uint8_t> outputs;
  for (const TensorSpec& t : manifest->signature.outputs) {
    outputs.push_back(static_cast<uint8_t>(t.dtype));
  }
  std::string text;
  auto model = AotiModel::Load(*path, std::move(outputs), card->threads, &text);
  if (model == nullptr) return Fail(error, text);
  // The constants are in the files, which are mapped.
  info->resident_bytes = 0;
  for (const ManifestFile& file : manifest->files) info->resident_bytes += file.bytes;
  *executable = new belfry_executable{std::move(model)};
  return 0;
}

void Unload(belfry_card*, belfry_executable* executable) { delete executable; }

int Warm(belfry_card*, belfry_executable* executable, const belfry_tensor* inputs,
         uint32_t input_count, belfry_error* error) {
  std::string text;
  return executable->model->Warm(inputs, input_count, &text) ? 0 : Fail(error, text);
}

void Submit(belfry_card*, belfry_executable* executable, belfry_call* call) {
  call->done(call, executable->model->Run(call), 1);
}

belfry_buffer* Allocate(belfry_card*, uint64_t bytes) {
  auto buffer = std::unique_ptr<belfry_buffer>(new (std::nothrow) belfry_buffer);
  if (buffer == nullptr) return nullptr;
  buffer->memory.reset(calloc(1, std::max<uint64_t>(bytes, 1)));
  return buffer->memory == nullptr ? nullptr : buffer.release();
}

void FreeBuffer(belfry_card*, belfry_buffer* buffer) { delete buffer; }

void Memory(belfry_card* card, uint64_t* used, uint64_t* total) {
  *used = ResidentBytes();
  *total = card->memory_total;
}

// The interface is C: nothing may leave as an exception. libtorch's are caught
// where it is called; what is left is memory that runs out.
template <auto Function, typename... Args>
int Guarded(Args... args, belfry_error* error) {
  try {
    return Function(args..., error);
  } catch (const std::exception& e) {
    snprintf(error->text, sizeof error->text, "%s", e.what());
    return 1;
  }
}

int OpenGuarded(const belfry_card_options* options, belfry_card** card, belfry_error* error) {
  return Guarded<Open, const belfry_card_options*, belfry_card**>(options, card, error);
}

int LoadGuarded(belfry_card* card, const char* dir, belfry_executable** executable,
                belfry_executable_info* info, belfry_error* error) {
  return Guarded<Load, belfry_card*, const char*, belfry_executable**, belfry_executable_info*>(
      card, dir, executable, info, error);
}

int WarmGuarded(belfry_card* card, belfry_executable* executable, const belfry_tensor* inputs,
                uint32_t count, belfry_error* error) {
  return Guarded<Warm, belfry_card*, belfry_executable*, const belfry_tensor*, uint32_t>(
      card, executable, inputs, count, error);
}

constexpr belfry_driver kDriver = {
    .abi = BELFRY_DRIVER_ABI,
    .name = "cpu",
    .describe = &Describe,
    .open = &OpenGuarded,
    .close = &Close,
    .load = &LoadGuarded,
    .unload = &Unload,
    .warm = &WarmGuarded,
    .submit = &Submit,
    .allocate = &Allocate,
    .free_buffer = &FreeBuffer,
    .memory = &Memory,
};

}  // namespace
}  // namespace belfry::cpu

extern "C" __attribute__((visibility("default"))) const belfry_driver* belfry_driver_get(void) {
  return &belfry::cpu::kDriver;
}
