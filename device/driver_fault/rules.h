// What an artifact for the driver 'fault' asks for; README.md lists it.
#ifndef BELFRY_DEVICE_DRIVER_FAULT_RULES_H_
#define BELFRY_DEVICE_DRIVER_FAULT_RULES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace belfry::fault {

struct Rules {
  std::string load, warm, run;
  std::string load_gate, run_gate, run_started, once_file;
  int64_t load_ms = 0, run_ms = 0;
  int64_t on_call = 0;  // 0: at every call
  int64_t answers = 1;
  uint64_t resident_bytes = 0;
  bool async = false;
};

struct CardRules {
  std::string open, open_once;
  uint64_t memory_used = 0, memory_total = 0;
};

absl::StatusOr<Rules> ReadRules(const std::string& path);
absl::StatusOr<CardRules> ParseCardRules(std::string_view json);

// Whether a fault that is tied to a file happens now: there is no file in the
// rule, or it exists and could be removed.
bool TakeOnce(const std::string& path);

void SleepMs(int64_t ms);
void AwaitFile(const std::string& path);  // empty: returns at once
void MakeFile(const std::string& path);   // empty: none

// Performs "crash", "segv", "exit", "hang" and "spin"; returns if the fault is
// none of these.
void Perform(std::string_view fault);

}  // namespace belfry::fault

#endif  // BELFRY_DEVICE_DRIVER_FAULT_RULES_H_
