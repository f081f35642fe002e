#include "server/cards/control_calls.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "server/telemetry/log.h"

namespace belfry::cards {

absl::Status ControlCalls::Run(std::shared_ptr<ControlCall> call, absl::Duration patience) {
  {
    const auto settled = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return open_ || stopped_; };
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(absl::Condition(&settled), patience);
    if (stopped_) {
      return absl::UnavailableError(absl::StrCat(card_, " is stopped; ", call->what,
                                                 " needs a running card"));
    }
    if (!open_) {
      return absl::UnavailableError(absl::StrCat(
          card_, " did not become READY within ", absl::FormatDuration(patience), " for ",
          call->what, unavailable_.ok() ? "" : ": ", unavailable_.message()));
    }
    StartLocked(call);
  }
  wake_();
  call->done.WaitForNotification();
  return call->status;
}

void ControlCalls::Open() {
  absl::MutexLock lock(&mu_);
  open_ = true;
  unavailable_ = absl::OkStatus();
}

void ControlCalls::SetUnavailable(const absl::Status& why) {
  absl::MutexLock lock(&mu_);
  open_ = false;
  unavailable_ = why;
}

void ControlCalls::Stop() {
  absl::MutexLock lock(&mu_);
  open_ = false;
  stopped_ = true;
}

void ControlCalls::Start(std::shared_ptr<ControlCall> call) {
  absl::MutexLock lock(&mu_);
  StartLocked(std::move(call));
}

void ControlCalls::StartLocked(std::shared_ptr<ControlCall> call) {
  const uint64_t id = next_id_++;
  call->request.id = id;
  call->started = clock_->Now();
  outgoing_.push_back(id);
  calls_[id] = std::move(call);
}

std::optional<channel::Request> ControlCalls::NextToSend() const {
  absl::MutexLock lock(&mu_);
  if (outgoing_.empty()) return std::nullopt;
  return calls_.at(outgoing_.front())->request;
}

void ControlCalls::Sent() {
  absl::MutexLock lock(&mu_);
  outgoing_.pop_front();
}

absl::Status ControlCalls::Finish(const channel::Reply& reply) {
  std::shared_ptr<ControlCall> call;
  {
    absl::MutexLock lock(&mu_);
    const auto it = calls_.find(reply.id);
    const bool unsent = !outgoing_.empty() && reply.id >= outgoing_.front();
    if (it == calls_.end() || unsent) {
      return absl::InvalidArgumentError(
          absl::StrCat("answers request ", reply.id, ", which it was not asked"));
    }
    call = it->second;
    calls_.erase(it);
    last_answer_ = clock_->Now();
  }
  if (reply.status.ok()) {
    if (call->on_ok) call->on_ok();
  } else {
    call->status = absl::Status(
        reply.status.code(),
        AbslView(telemetry::Sanitize(StdView(reply.status.message()), channel::kMaxControlBytes)));
  }
  call->done.Notify();
  return absl::OkStatus();
}

void ControlCalls::FailOne(uint64_t id, const absl::Status& why) {
  std::shared_ptr<ControlCall> call;
  {
    absl::MutexLock lock(&mu_);
    const auto it = calls_.find(id);
    if (it == calls_.end()) return;
    call = it->second;
    calls_.erase(it);
    std::erase(outgoing_, id);
  }
  call->status = why;
  call->done.Notify();
}

void ControlCalls::FailAll(const absl::Status& why) {
  std::vector<std::shared_ptr<ControlCall>> failed;
  bool first_was_sent;
  {
    absl::MutexLock lock(&mu_);
    first_was_sent =
        !calls_.empty() && (outgoing_.empty() || outgoing_.front() != calls_.begin()->first);
    for (auto& [id, call] : calls_) failed.push_back(std::move(call));
    calls_.clear();
    outgoing_.clear();
  }
  for (size_t i = 0; i < failed.size(); ++i) {
    const char* when = i == 0 && first_was_sent ? "the card died while " : "the card died before ";
    failed[i]->status = absl::UnavailableError(
        absl::StrCat(when, failed[i]->what, ": ", why.message()));
    failed[i]->done.Notify();
  }
}

std::optional<RunningItem> ControlCalls::Running(absl::Duration limit, std::string* what) const {
  absl::MutexLock lock(&mu_);
  if (calls_.empty()) return std::nullopt;
  // Ids ascend in the order of submission, so the first is the oldest.
  const auto& [id, call] = *calls_.begin();
  const WorkItem item{id, call->started, absl::ToInt64Nanoseconds(limit)};
  *what = call->what;
  return FindRunning(std::span(&item, 1), last_answer_);
}

bool ControlCalls::idle() const {
  absl::MutexLock lock(&mu_);
  return calls_.empty();
}

}  // namespace belfry::cards
