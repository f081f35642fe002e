#include "server/cards/process_card.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace belfry::cards {
namespace {

// A message on the control socket has a size limit; and between two requests
// the card can answer others.
constexpr size_t kShapesPerRequest = 16;

Link& AsLink(const std::shared_ptr<void>& link) { return *static_cast<Link*>(link.get()); }

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessCard>> ProcessCard::Start(int index, CardConfig config,
                                                                CardListener* listener,
                                                                const Clock* clock) {
  std::unique_ptr<ProcessCard> card(new ProcessCard(index, std::move(config), clock));
  card->loop_ = std::make_unique<CompletionLoop>(card.get(), &Card::MakeSlot, listener,
                                                 &card->state_, clock);
  auto supervisor = Supervisor::Create(card->config_, card->loop_.get(), &card->residents_,
                                       &card->state_, clock);
  if (!supervisor.ok()) return supervisor.status();
  card->supervisor_ = *std::move(supervisor);
  return card;
}

ProcessCard::~ProcessCard() {
  supervisor_.reset();
  loop_.reset();
}

Slot ProcessCard::TryAcquireSlot() {
  if (state() != CardState::kReady) return Slot();
  std::shared_ptr<Link> link = loop_->link();
  uint32_t index;
  if (link == nullptr || !link->TryAcquire(&index)) return Slot();
  return MakeSlot(std::move(link), this, index);
}

int ProcessCard::slots_in_use() const {
  const std::shared_ptr<Link> link = loop_->link();
  return link == nullptr ? 0 : link->slots_in_use();
}

void ProcessCard::Submit(Slot slot, const BatchCall& call) {
  uint32_t index;
  const auto link = std::static_pointer_cast<Link>(TakeSlot(std::move(slot), &index));
  if (link == nullptr) return;  // an empty Slot holds no right to run anything
  if (!link->Submit(index, call, clock_->Now())) loop_->AddOrphan(link);
}

void ProcessCard::ReleaseSlot(const std::shared_ptr<void>& link, uint32_t index) {
  AsLink(link).Release(index);
}

std::span<uint8_t> ProcessCard::SlotInput(const std::shared_ptr<void>& link,
                                          uint32_t index) const {
  return AsLink(link).input(index);
}

std::span<const uint8_t> ProcessCard::SlotOutput(const std::shared_ptr<void>& link,
                                                 uint32_t index) const {
  return AsLink(link).output(index);
}

absl::Status ProcessCard::Named(const absl::Status& status) const {
  if (status.ok() || absl::StartsWith(status.message(), config_.name)) return status;
  return absl::Status(status.code(), absl::StrCat(config_.name, ": ", status.message()));
}

absl::Status ProcessCard::Load(const ExecutableSpec& spec) {
  if (!residents_.BeginLoad(spec.id)) return absl::OkStatus();
  auto call = std::make_shared<ControlCall>();
  call->request.op = channel::Op::kLoad;
  call->request.executable = spec.id;
  call->request.dir = spec.artifact_dir;
  call->request.builtin = spec.builtin;
  call->request.label = spec.label;
  call->what = absl::StrCat("loading ", spec.label);
  call->on_ok = [this, spec] { residents_.Add(spec); };
  const absl::Status status = supervisor_->Call(std::move(call));
  residents_.EndLoad(spec.id);
  return Named(status);
}

absl::Status ProcessCard::Warm(ExecutableId id, std::span<const WarmShape> shapes) {
  while (!shapes.empty()) {
    const auto resident = residents_.Find(id);
    if (!resident) {
      return Named(absl::FailedPreconditionError(
          absl::StrCat("executable ", id, " is not loaded, so it cannot be warmed")));
    }
    const auto part = shapes.first(std::min(shapes.size(), kShapesPerRequest));
    auto call = std::make_shared<ControlCall>();
    call->request.op = channel::Op::kWarm;
    call->request.executable = id;
    call->request.shapes.assign(part.begin(), part.end());
    call->what = absl::StrCat("warming ", resident->spec.label);
    call->on_ok = [this, id, done = call->request.shapes] { residents_.AddWarmed(id, done); };
    const absl::Status status = supervisor_->Call(std::move(call));
    if (!status.ok()) return Named(status);
    shapes = shapes.subspan(part.size());
  }
  return absl::OkStatus();
}

absl::Status ProcessCard::Unload(ExecutableId id) {
  const auto resident = residents_.Find(id);
  if (!resident || !residents_.Remove(id)) {
    return Named(absl::NotFoundError(absl::StrCat("executable ", id, " is not loaded")));
  }
  auto call = std::make_shared<ControlCall>();
  call->request.op = channel::Op::kUnload;
  call->request.executable = id;
  call->what = absl::StrCat("unloading ", resident->spec.label);
  const absl::Status status = supervisor_->CallNow(std::move(call));
  // A process that is not there, or died of it, holds nothing any more; and one
  // that is being started drops it before it serves.
  return absl::IsUnavailable(status) || absl::IsNotFound(status) ? absl::OkStatus()
                                                                 : Named(status);
}

CardInfo ProcessCard::Info() const {
  Supervisor::Figures figures = supervisor_->figures();
  const CardStats& stats = loop_->stats();
  CardInfo info;
  info.name = config_.name;
  info.driver = config_.driver;
  info.state = state();
  info.pid = figures.pid;
  info.restarts = figures.restarts;
  info.last_error = std::move(figures.last_error);
  info.memory_used = figures.memory_used;
  info.memory_total = figures.memory_total;
  info.busy_seconds = static_cast<double>(stats.busy_ns.load(std::memory_order_relaxed)) * 1e-9;
  info.batches = stats.batches.load(std::memory_order_relaxed);
  info.cycles = stats.cycles.load(std::memory_order_relaxed);
  info.residents = residents_.Labels();
  info.cores = config_.cores;
  return info;
}

}  // namespace belfry::cards
