// The driver 'fault'; README.md tells what it does.
#include <stdio.h>
#include <sys/utsname.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "device/driver.h"
#include "device/driver_fault/answers.h"
#include "device/driver_fault/rules.h"
#include "device/manifest/manifest.h"
#include "device/manifest/paths.h"

struct belfry_card {
  belfry::fault::CardRules rules;
};

struct belfry_executable {
  belfry::fault::Rules rules;
};

struct belfry_buffer {};

namespace belfry::fault {
namespace {

std::atomic<int64_t> calls{0};  // of this process

int Fail(belfry_error* error, const std::string& text) {
  snprintf(error->text, sizeof error->text, "%s", text.c_str());
  return 1;
}

const char* Describe() {
  static const std::string* const text = [] {
    utsname host = {};
    uname(&host);
    return new std::string(absl::StrCat(R"({"driver":"fault/1","arch":")", host.machine,
                                        R"(","isa":"none","torch":"none"})"));
  }();
  return text->c_str();
}

int Open(const belfry_card_options* options, belfry_card** card, belfry_error* error) {
  auto rules = ParseCardRules(options->json);
  if (!rules.ok()) return Fail(error, std::string(rules.status().message()));
  if (!rules->open.empty() && TakeOnce(rules->open_once)) {
    Perform(rules->open);
    return Fail(error, absl::StrCat("a fault on purpose: open ", rules->open));
  }
  *card = new belfry_card{*std::move(rules)};
  return 0;
}

void Close(belfry_card* card) { delete card; }

int Load(belfry_card*, const char* dir, belfry_executable** executable,
         belfry_executable_info* info, belfry_error* error) {
  const auto manifest = ReadManifest(dir);
  if (!manifest.ok()) return Fail(error, std::string(manifest.status().message()));
  if (manifest->entry_kind != "fault") {
    return Fail(error, absl::StrCat("entry kind '", manifest->entry_kind, "', expected 'fault'"));
  }
  const auto path = ResolveInside(dir, manifest->entry_path);
  if (!path.ok()) return Fail(error, std::string(path.status().message()));
  auto rules = ReadRules(*path);
  if (!rules.ok()) return Fail(error, std::string(rules.status().message()));
  SleepMs(rules->load_ms);
  AwaitFile(rules->load_gate);
  if (!rules->load.empty()) {
    Perform(rules->load);
    return Fail(error, absl::StrCat("a fault on purpose: load ", rules->load));
  }
  info->resident_bytes = rules->resident_bytes;
  *executable = new belfry_executable{*std::move(rules)};
  return 0;
}

void Unload(belfry_card*, belfry_executable* executable) { delete executable; }

int Warm(belfry_card*, belfry_executable* executable, const belfry_tensor*, uint32_t,
         belfry_error* error) {
  if (executable->rules.warm.empty()) return 0;
  Perform(executable->rules.warm);
  return Fail(error, absl::StrCat("a fault on purpose: warm ", executable->rules.warm));
}

// What this call does wrong.
std::string FaultOf(const Rules& rules) {
  const int64_t number = calls.fetch_add(1) + 1;
  if (rules.run.empty() || (rules.on_call != 0 && rules.on_call != number)) return "";
  return TakeOnce(rules.once_file) ? rules.run : "";
}

void RunCall(const Rules& rules, belfry_call* call) {
  MakeFile(rules.run_started);
  SleepMs(rules.run_ms);
  AwaitFile(rules.run_gate);
  const std::string fault = FaultOf(rules);
  Perform(fault);
  const int64_t answers = rules.answers < 1 ? 1 : rules.answers;
  for (int64_t i = 1; i <= answers; ++i) {
    const belfry_outcome outcome = Answer(call, fault);
    if (outcome != BELFRY_OK || i == answers) {
      call->done(call, outcome, 1);
      return;
    }
    call->done(call, outcome, 0);
  }
}

void Submit(belfry_card*, belfry_executable* executable, belfry_call* call) {
  if (!executable->rules.async) {
    RunCall(executable->rules, call);
    return;
  }
  // The rules are copied: after the last answer the executable may go.
  std::thread([rules = executable->rules, call] { RunCall(rules, call); }).detach();
}

belfry_buffer* Allocate(belfry_card*, uint64_t) { return nullptr; }
void FreeBuffer(belfry_card*, belfry_buffer*) {}

void Memory(belfry_card* card, uint64_t* used, uint64_t* total) {
  *used = card->rules.memory_used;
  *total = card->rules.memory_total;
}

constexpr belfry_driver kDriver = {
    .abi = BELFRY_DRIVER_ABI,
    .name = "fault",
    .describe = &Describe,
    .open = &Open,
    .close = &Close,
    .load = &Load,
    .unload = &Unload,
    .warm = &Warm,
    .submit = &Submit,
    .allocate = &Allocate,
    .free_buffer = &FreeBuffer,
    .memory = &Memory,
};

}  // namespace
}  // namespace belfry::fault

extern "C" __attribute__((visibility("default"))) const belfry_driver* belfry_driver_get(void) {
  return &belfry::fault::kDriver;
}
