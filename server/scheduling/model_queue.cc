#include "server/scheduling/model_queue.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"

namespace belfry::scheduling {
namespace {

bool Answered(const Job& job) { return job.answered.load(std::memory_order_acquire); }

// The group of the requests that are run one by one. No shape key looks so.
constexpr char kAlone[] = "(alone)";

std::string GroupOf(const Job& job, bool alone) {
  if (alone) return kAlone;
  return job.group_key.empty() ? job.binding.shape_key : job.group_key;
}

void Forget(Job& job, Entry* entry) {
  auto& waiting = job.waiting;
  waiting.erase(std::remove(waiting.begin(), waiting.end(), entry), waiting.end());
}

}  // namespace

ModelQueue::ModelQueue(QueueOptions options) : options_(std::move(options)) {}

ModelQueue::~ModelQueue() {
  absl::MutexLock lock(&mutex_);
  for (auto& [key, group] : groups_) {
    for (Entry* entry : group->by_age) delete entry;
  }
}

GroupView ModelQueue::Group::View() const {
  return {.urgent = (*by_urgency.begin())->order,
          .oldest_enqueued = by_age.front()->enqueued,
          .rows = rows};
}

MonoNs ModelQueue::Group::ReadyAt(const BatchLimits& limits) const {
  const GroupView view = View();
  return alone ? view.oldest_enqueued : scheduling::ReadyAt(view, limits);
}

void ModelQueue::NoteAge() {
  MonoNs oldest = 0;
  for (const auto& [key, group] : groups_) {
    const MonoNs age = group->by_age.front()->enqueued;
    if (oldest == 0 || age < oldest) oldest = age;
  }
  metrics().oldest_enqueued_ns.store(oldest, std::memory_order_relaxed);
}

void ModelQueue::Insert(std::unique_ptr<Entry> owned, bool front) {
  Entry* entry = owned.release();
  std::unique_ptr<Group>& group = groups_[entry->group];
  if (group == nullptr) {
    group = std::make_unique<Group>();
    group->alone = entry->alone;
  }
  group->by_urgency.insert(entry);
  entry->by_age = group->by_age.insert(front ? group->by_age.begin() : group->by_age.end(), entry);
  group->rows += entry->rows();
  if (entry->order.deadline != kNever) by_deadline_.insert(entry);
  entry->job->waiting.push_back(entry);
  if (depth_.fetch_add(1, std::memory_order_relaxed) == 0 || front) NoteAge();
  metrics().queue_depth.fetch_add(1, std::memory_order_relaxed);
}

std::unique_ptr<Entry> ModelQueue::Extract(Entry* entry) {
  const auto found = groups_.find(entry->group);
  Group& group = *found->second;
  const bool was_oldest = group.by_age.front() == entry;
  group.by_urgency.erase(entry);
  group.by_age.erase(entry->by_age);
  group.rows -= entry->rows();
  if (group.by_age.empty()) groups_.erase(found);
  if (entry->order.deadline != kNever) by_deadline_.erase(entry);
  Forget(*entry->job, entry);
  depth_.fetch_sub(1, std::memory_order_relaxed);
  metrics().queue_depth.fetch_sub(1, std::memory_order_relaxed);
  if (was_oldest) NoteAge();
  return std::unique_ptr<Entry>(entry);
}

absl::Status ModelQueue::Push(std::shared_ptr<Job> job, MonoNs now) {
  auto entry = std::make_unique<Entry>();
  entry->enqueued = now;
  entry->end_row = job->binding.rows;
  entry->order.priority = job->priority;
  entry->order.deadline = job->deadline;
  entry->alone = !options_.join || !job->binding.joinable;
  absl::MutexLock lock(&mutex_);
  if (!closed_.ok()) return closed_;
  if (depth_.load(std::memory_order_relaxed) >= options_.max_queue) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the queue of model '", model(), "' version ", version(), " is full: ",
                     options_.max_queue, " requests wait"));
  }
  entry->order.arrival = next_arrival_++;
  entry->group = GroupOf(*job, entry->alone);
  ++accepted_;
  job->in_flight = telemetry::GaugeToken(&metrics().in_flight, 1);
  entry->job = std::move(job);
  Insert(std::move(entry), /*front=*/false);
  return absl::OkStatus();
}

void ModelQueue::PushBack(std::vector<Part> parts, int lost_on_card, bool alone, MonoNs now) {
  absl::MutexLock lock(&mutex_);
  // Numbers below those of Push: in front of every newcomer, in order. The last
  // goes in front first, so that the first ends up as the oldest.
  const uint64_t first = next_retry_;
  next_retry_ += parts.size();
  for (size_t i = parts.size(); i-- > 0;) {
    Part& part = parts[i];
    if (Answered(*part.job)) continue;
    auto entry = std::make_unique<Entry>();
    entry->enqueued = part.job->accepted;
    entry->next_row = part.first_row;
    entry->end_row = part.first_row + part.rows;
    entry->retries = part.retries;
    entry->avoid_card = lost_on_card;
    entry->alone = part.alone || alone;
    entry->order.priority = part.job->priority;
    entry->order.deadline = part.job->deadline;
    entry->order.arrival = first + i;
    entry->group = GroupOf(*part.job, entry->alone);
    entry->job = std::move(part.job);
    Insert(std::move(entry), /*front=*/true);
  }
}

bool ModelQueue::Group::HasWorkFor(int card, bool other_cards) const {
  if (!other_cards) return true;
  // Rows that were lost stand in front; the first other one ends the look.
  return std::any_of(by_age.begin(), by_age.end(),
                     [card](const Entry* e) { return e->avoid_card != card; });
}

ModelQueue::Group* ModelQueue::Choose(int card, bool other_cards, MonoNs now) const {
  absl::InlinedVector<GroupView, 16> views;
  absl::InlinedVector<Group*, 16> order;
  for (const auto& [key, group] : groups_) {
    // A group whose batch may still wait is no candidate.
    if (group->ReadyAt(options_.limits) > now) continue;
    if (!group->HasWorkFor(card, other_cards)) continue;
    views.push_back(group->View());
    order.push_back(group.get());
  }
  const int chosen = ChooseGroup(views, now);
  return chosen < 0 ? nullptr : order[chosen];
}

Part ModelQueue::Cut(Entry* entry, int64_t rows, MonoNs now) {
  Part part{.job = entry->job,
            .first_row = entry->next_row,
            .rows = std::min(rows, entry->rows()),
            .retries = entry->retries,
            .alone = entry->alone};
  MonoNs never_taken = 0;
  part.job->first_taken.compare_exchange_strong(never_taken, now, std::memory_order_relaxed);
  if (part.rows == entry->rows()) {
    Extract(entry);
  } else {
    // The rest has just been served, so it is the youngest again: a large
    // request must not count as starving for as long as it lasts.
    Group& group = *groups_.find(entry->group)->second;
    entry->next_row += part.rows;
    entry->enqueued = now;
    group.rows -= part.rows;
    group.by_age.splice(group.by_age.end(), group.by_age, entry->by_age);
    NoteAge();
  }
  return part;
}

int64_t ModelQueue::RowsToTake(const Group& group, const Entry& head, RoomFn room) const {
  // What may not be cut is run whole: its size was checked when it came.
  if (!options_.signature.batchable || !head.job->binding.joinable) return head.rows();
  const int64_t waiting = group.alone ? head.rows() : group.rows;
  return ChooseRows(waiting, room(*head.job), options_.limits);
}

Taken ModelQueue::Take(int card, bool other_cards, MonoNs now, RoomFn room) {
  Taken taken;
  absl::MutexLock lock(&mutex_);
  Group* group = Choose(card, other_cards, now);
  if (group == nullptr) return taken;
  // Left to others: rows that this card lost, and what has expired (the timer
  // answers it within moments).
  const auto elsewhere = [&](const Entry* e) {
    return (other_cards && e->avoid_card == card) || e->order.deadline <= now;
  };

  // One that starves goes first; the rest by urgency.
  Entry* oldest = group->by_age.front();
  const bool starves = now - oldest->enqueued > kStarvationNs && !elsewhere(oldest);
  absl::InlinedVector<Entry*, 64> chosen;
  int64_t left = 1;  // until the first entry tells the room
  const auto add = [&](Entry* entry) {
    if (chosen.empty()) left = taken.rows = RowsToTake(*group, *entry, room);
    if (left <= 0) return;
    chosen.push_back(entry);
    left -= entry->rows();
  };
  if (starves) add(oldest);
  for (Entry* entry : group->by_urgency) {
    if (left <= 0 || (group->alone && !chosen.empty())) break;
    if (elsewhere(entry) || (starves && entry == oldest)) continue;
    add(entry);
  }
  left = taken.rows;
  taken.rows = 0;
  taken.parts.reserve(chosen.size());
  for (Entry* entry : chosen) {  // may free the group: it is not touched below
    Part part = Cut(entry, left, now);
    left -= part.rows;
    taken.rows += part.rows;
    taken.parts.push_back(std::move(part));
  }
  return taken;
}

std::optional<ModelView> ModelQueue::View(int card, bool other_cards, MonoNs now) const {
  if (empty()) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  const Group* group = Choose(card, other_cards, now);
  if (group == nullptr) return std::nullopt;
  const GroupView view = group->View();
  return ModelView{.priority = view.urgent.priority,
                   .oldest_enqueued = view.oldest_enqueued,
                   .consumed = consumed()};
}

MonoNs ModelQueue::NextEvent(MonoNs now) const {
  if (empty()) return kNever;
  absl::MutexLock lock(&mutex_);
  MonoNs next = by_deadline_.empty() ? kNever : (*by_deadline_.begin())->order.deadline;
  if (options_.limits.delay > 0) {
    for (const auto& [key, group] : groups_) {
      const MonoNs ready = group->ReadyAt(options_.limits);
      if (ready > now) next = std::min(next, ready);
    }
  }
  return next;
}

bool ModelQueue::Remove(Job& job) {
  absl::MutexLock lock(&mutex_);
  const bool waited = !job.waiting.empty();
  while (!job.waiting.empty()) Extract(job.waiting.back());
  return waited;
}

std::vector<std::shared_ptr<Job>> ModelQueue::RemoveExpired(MonoNs now) {
  std::vector<std::shared_ptr<Job>> out;
  absl::MutexLock lock(&mutex_);
  while (!by_deadline_.empty() && (*by_deadline_.begin())->order.deadline <= now) {
    std::shared_ptr<Job> job = (*by_deadline_.begin())->job;
    while (!job->waiting.empty()) Extract(job->waiting.back());
    out.push_back(std::move(job));
  }
  return out;
}

std::vector<std::shared_ptr<Job>> ModelQueue::RemoveAll() {
  std::vector<std::shared_ptr<Job>> out;
  absl::MutexLock lock(&mutex_);
  while (!groups_.empty()) {
    std::shared_ptr<Job> job = groups_.begin()->second->by_age.front()->job;
    while (!job->waiting.empty()) Extract(job->waiting.back());
    out.push_back(std::move(job));
  }
  return out;
}

void ModelQueue::Close(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  if (closed_.ok()) closed_ = std::move(why);
}

bool ModelQueue::closed() const {
  absl::MutexLock lock(&mutex_);
  return !closed_.ok();
}

bool ModelQueue::WaitIdle(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return accepted_ == 0; };
  return mutex_.AwaitWithTimeout(absl::Condition(&idle), timeout);
}

void ModelQueue::JobEnded() {
  absl::MutexLock lock(&mutex_);
  --accepted_;
}

double ModelQueue::Charge(double floor) {
  const double estimate = average_.load(std::memory_order_relaxed);
  double old = consumed_.load(std::memory_order_relaxed);
  while (!consumed_.compare_exchange_weak(old, std::max(old, floor) + estimate,
                                          std::memory_order_relaxed)) {
  }
  return estimate;
}

void ModelQueue::Settle(double estimate, double seconds) {
  double old = consumed_.load(std::memory_order_relaxed);
  while (!consumed_.compare_exchange_weak(old, old - estimate + seconds,
                                          std::memory_order_relaxed)) {
  }
  // An eighth of the news: steady after some ten batches. A lost update between
  // two cards does no harm to an average.
  const double average = average_.load(std::memory_order_relaxed);
  average_.store(average + (seconds - average) / 8, std::memory_order_relaxed);
}

}  // namespace belfry::scheduling
