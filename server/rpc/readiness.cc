#include "server/rpc/readiness.h"

#include <algorithm>

namespace belfry::rpc {

bool Readiness::ServerReady() const { return !draining() && manager_->Ready(); }

absl::StatusOr<bool> Readiness::ModelReady(std::string_view model,
                                           std::string_view version) const {
  const auto entry = catalog_->Resolve(model, version);
  if (!entry.ok()) {
    if (absl::IsInvalidArgument(entry.status())) return entry.status();
    return false;
  }
  if (draining()) return false;
  const auto status = manager_->Status((*entry)->model, (*entry)->version);
  return status.ok() && HasReadyCard(*status);
}

bool Readiness::HasReadyCard(const serving::VersionStatus& status) const {
  return std::any_of(pool_->cards().begin(), pool_->cards().end(), [&](const cards::Card* card) {
    return card->state() == cards::CardState::kReady &&
           std::find(status.cards.begin(), status.cards.end(), card->name()) !=
               status.cards.end();
  });
}

}  // namespace belfry::rpc
