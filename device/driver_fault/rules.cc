#include "device/driver_fault/rules.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <utility>

#include "device/channel/json.h"

namespace belfry::fault {
namespace {

using Texts = std::initializer_list<std::pair<const char*, std::string*>>;
using Numbers = std::initializer_list<std::pair<const char*, int64_t*>>;
using Sizes = std::initializer_list<std::pair<const char*, uint64_t*>>;

absl::Status Read(const JsonView& root, Texts texts, Numbers numbers, Sizes sizes) {
  for (const auto& [name, into] : texts) {
    if (const auto field = root.Optional(name)) {
      auto text = field->String(4096);
      if (!text.ok()) return text.status();
      *into = *std::move(text);
    }
  }
  for (const auto& [name, into] : numbers) {
    if (const auto field = root.Optional(name)) {
      auto value = field->Int(0, std::numeric_limits<int64_t>::max());
      if (!value.ok()) return value.status();
      *into = *value;
    }
  }
  for (const auto& [name, into] : sizes) {
    if (const auto field = root.Optional(name)) {
      auto value = field->Uint(std::numeric_limits<uint64_t>::max());
      if (!value.ok()) return value.status();
      *into = *value;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Rules> ReadRules(const std::string& path) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto parsed = ParseJsonObject(text, 1 << 20);
  if (!parsed.ok()) return parsed.status();
  const JsonView root(*parsed, "");
  Rules r;
  if (auto s = Read(root,
                    {{"load", &r.load},
                     {"warm", &r.warm},
                     {"run", &r.run},
                     {"load_gate", &r.load_gate},
                     {"run_gate", &r.run_gate},
                     {"run_started", &r.run_started},
                     {"once_file", &r.once_file}},
                    {{"load_ms", &r.load_ms},
                     {"run_ms", &r.run_ms},
                     {"on_call", &r.on_call},
                     {"answers", &r.answers}},
                    {{"resident_bytes", &r.resident_bytes}});
      !s.ok()) {
    return s;
  }
  if (const auto field = root.Optional("async")) {
    auto value = field->Bool();
    if (!value.ok()) return value.status();
    r.async = *value;
  }
  return r;
}

absl::StatusOr<CardRules> ParseCardRules(std::string_view json) {
  auto parsed = ParseJsonObject(json, 1 << 20);
  if (!parsed.ok()) return parsed.status();
  CardRules r;
  if (auto s = Read(JsonView(*parsed, ""), {{"open", &r.open}, {"open_once", &r.open_once}}, {},
                    {{"memory_used", &r.memory_used}, {"memory_total", &r.memory_total}});
      !s.ok()) {
    return s;
  }
  return r;
}

bool TakeOnce(const std::string& path) { return path.empty() || unlink(path.c_str()) == 0; }

void SleepMs(int64_t ms) {
  timespec left = {ms / 1000, ms % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0) {
  }
}

void AwaitFile(const std::string& path) {
  while (!path.empty() && access(path.c_str(), F_OK) != 0) SleepMs(1);
}

void MakeFile(const std::string& path) {
  if (!path.empty()) std::ofstream(path) << "started\n";
}

void Perform(std::string_view fault) {
  if (fault == "crash") abort();
  if (fault == "segv") raise(SIGSEGV);
  if (fault == "exit") _exit(3);
  if (fault == "hang") {
    for (;;) pause();
  }
  if (fault == "spin") {
    std::atomic<uint64_t> n{0};
    for (;;) n.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace belfry::fault
