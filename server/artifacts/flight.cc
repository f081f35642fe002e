#include "server/artifacts/flight.h"

#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace belfry::artifacts {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(50);

absl::Status Cancelled() { return absl::CancelledError("nobody waits for the artifact any more"); }

}  // namespace

Flights::~Flights() {
  std::map<std::string, FlightPtr> rest;
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
    while (inside_ > 0) changed_.Wait(&mutex_);
    rest = flying_;
  }
  for (auto& [key, flight] : rest) {
    if (flight->thread.joinable()) flight->thread.join();
  }
  JoinLanded();
}

bool Flights::closing() const {
  absl::MutexLock lock(&mutex_);
  return closing_;
}

absl::StatusOr<Landing> Flights::Join(const std::string& key, const Job& job,
                                      const Report& progress,
                                      const std::function<bool()>& cancelled) {
  JoinLanded();
  absl::MutexLock lock(&mutex_);
  ++inside_;
  auto leave = absl::MakeCleanup([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    --inside_;
    changed_.SignalAll();
  });
  absl::StatusOr<FlightPtr> flight = Board(key, job, cancelled);
  if (!flight.ok()) return flight.status();
  return Wait(*flight, progress, cancelled);
}

absl::StatusOr<Flights::FlightPtr> Flights::Board(const std::string& key, const Job& job,
                                                  const std::function<bool()>& cancelled) {
  for (;;) {
    if (closing_) return Cancelled();
    auto it = flying_.find(key);
    if (it == flying_.end()) break;
    if (!it->second->abandoned) {
      ++it->second->askers;
      return it->second;
    }
    // It is being killed; start anew when it is gone.
    if (WaitTick(cancelled)) return Cancelled();
  }
  auto flight = std::make_shared<Flight>();
  flight->askers = 1;
  try {
    flight->thread = std::thread([this, key, flight, job] { Fly(key, flight, job); });
  } catch (const std::system_error& e) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot start a thread: ", e.what()));
  }
  // Fly waits for the mutex before it looks at the map.
  flying_[key] = flight;
  return flight;
}

void Flights::Fly(const std::string& key, FlightPtr flight, const Job& job) {
  const Report report = [this, &flight](const CompileProgress& progress) {
    absl::MutexLock lock(&mutex_);
    flight->progress = progress;
    ++flight->reports;
    changed_.SignalAll();
  };
  const auto cancelled = [this, &flight] {
    absl::MutexLock lock(&mutex_);
    return flight->abandoned || closing_;
  };
  absl::StatusOr<Landing> result = job(report, cancelled);
  absl::MutexLock lock(&mutex_);
  // Nobody is left to take an abandoned one; it must not stay pinned.
  flight->result = flight->askers > 0 ? std::move(result) : Cancelled();
  flight->landed = true;
  flying_.erase(key);
  landed_.push_back(flight);
  changed_.SignalAll();
}

absl::StatusOr<Landing> Flights::Wait(const FlightPtr& flight, const Report& progress,
                                      const std::function<bool()>& cancelled) {
  uint64_t told = 0;
  while (!flight->landed) {
    if (progress && flight->reports != told) {
      told = flight->reports;
      const CompileProgress copy = flight->progress;
      mutex_.Unlock();
      progress(copy);
      mutex_.Lock();
      continue;
    }
    if (WaitTick(cancelled)) {
      if (flight->landed) break;
      if (--flight->askers == 0) flight->abandoned = true;
      return Cancelled();
    }
  }
  --flight->askers;
  absl::StatusOr<Landing> result = flight->result;
  // The pin is the askers', not the landed flight's.
  if (flight->askers == 0) flight->result = Cancelled();
  return result;
}

// True when the asker is to leave.
bool Flights::WaitTick(const std::function<bool()>& cancelled) {
  changed_.WaitWithTimeout(&mutex_, kTick);
  if (closing_) return true;
  if (!cancelled) return false;
  mutex_.Unlock();
  const bool leave = cancelled();
  mutex_.Lock();
  return leave;
}

void Flights::JoinLanded() {
  std::vector<FlightPtr> landed;
  {
    absl::MutexLock lock(&mutex_);
    landed.swap(landed_);
  }
  for (const FlightPtr& flight : landed) {
    if (flight->thread.joinable()) flight->thread.join();  // not yet by the destructor
  }
}

}  // namespace belfry::artifacts
