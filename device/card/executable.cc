#include "device/card/executable.h"

#include "absl/strings/str_cat.h"
#include "device/card/warm_inputs.h"

namespace belfry::card {
namespace {

// Refuses early, so that a model that cannot fit does not push others out of
// memory while it tries.
absl::Status CheckRoom(const OpenCard& card, const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  const OpenCard::Memory memory = card.memory();
  const uint64_t left = memory.total > memory.used ? memory.total - memory.used : 0;
  if (memory.total == 0 || bytes <= left) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the artifact has ", bytes, " bytes, the card ",
                                                   left, " left of ", memory.total));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executable>> DriverExecutable::Load(OpenCard* card,
                                                                   const std::string& dir) {
  auto manifest = ReadManifest(dir);
  if (!manifest.ok()) return absl::FailedPreconditionError(manifest.status().message());
  if (auto s = CheckRoom(*card, *manifest); !s.ok()) return s;
  auto error = std::make_unique<belfry_error>();
  belfry_executable* executable = nullptr;
  belfry_executable_info info = {};
  if (card->driver().load(card->card(), dir.c_str(), &executable, &info, error.get()) != 0) {
    return absl::FailedPreconditionError(ErrorText(*error));
  }
  return std::unique_ptr<Executable>(new DriverExecutable(
      card, executable, info.resident_bytes, std::move(manifest->signature)));
}

DriverExecutable::~DriverExecutable() { card_->driver().unload(card_->card(), executable_); }

absl::Status DriverExecutable::Warm(const std::vector<std::pair<std::string, int64_t>>& shape) {
  auto inputs = WarmInputs::Make(signature_, shape);
  if (!inputs.ok()) return inputs.status();
  const auto tensors = inputs->tensors();
  auto error = std::make_unique<belfry_error>();
  if (card_->driver().warm(card_->card(), executable_, tensors.data(),
                           static_cast<uint32_t>(tensors.size()), error.get()) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("warm-up: ", ErrorText(*error)));
  }
  return absl::OkStatus();
}

}  // namespace belfry::card
