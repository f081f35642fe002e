#include "server/artifacts/worker.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "device/channel/text.h"
#include "server/artifacts/child.h"
#include "server/artifacts/compiler_output.h"
#include "server/telemetry/log.h"

namespace belfry::artifacts {
namespace {

using nlohmann::json;
using Reason = ChildOutcome::Reason;

constexpr absl::Duration kDescribeTimeout = absl::Seconds(30);
constexpr size_t kWordsInError = 1500;  // of the log, where the compiler gave no message

int UsableCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// Only what the compiler and its tools need comes through: nothing else of the
// environment can reach an artifact.
std::vector<std::string> Environment(const StoreOptions& options, const std::string& scratch,
                                     int threads) {
  std::vector<std::string> env = {
      absl::StrCat("PYTHONPATH=", options.compiler_dir),
      "PYTHONNOUSERSITE=1",
      "PYTHONDONTWRITEBYTECODE=1",
      "PYTHONUNBUFFERED=1",
      "PYTHONHASHSEED=0",
      "PYTHONUTF8=1",
      "LC_ALL=C.UTF-8",
      absl::StrCat("HOME=", scratch),
      absl::StrCat("TMPDIR=", scratch),
      absl::StrCat("OMP_NUM_THREADS=", threads),
      absl::StrCat("MKL_NUM_THREADS=", threads),
      absl::StrCat("OPENBLAS_NUM_THREADS=", threads),
  };
  const char* path = getenv("PATH");
  env.push_back(absl::StrCat("PATH=", path != nullptr ? path : "/usr/bin:/bin"));
  // Where a private interpreter or compiler finds its libraries.
  if (const char* libraries = getenv("LD_LIBRARY_PATH")) {
    env.push_back(absl::StrCat("LD_LIBRARY_PATH=", libraries));
  }
  return env;
}

std::string Field(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// What the lines on stdout have said so far.
struct Conversation {
  std::string stage = "start";
  std::optional<std::string> done_key;
  std::optional<std::pair<std::string, std::string>> error;  // kind, message

  // True when a new stage began.
  bool Take(const json& line) {
    if (line.contains("error") && line["error"].is_object()) {
      error.emplace(Field(line["error"], "kind"), Field(line["error"], "message"));
    } else if (line.contains("done") && line["done"].is_object()) {
      done_key = Field(line["done"], "key");
    } else if (const std::string name = Field(line, "stage"); !name.empty()) {
      stage = telemetry::Sanitize(name, 64);
      return true;
    }
    return false;
  }
};

bool SpeaksOfMemory(std::string_view text) {
  const std::string lower = absl::AsciiStrToLower(AbslView(text));
  for (const char* sign : {"memoryerror", "bad_alloc", "out of memory", "can't allocate memory",
                           "cannot allocate memory", "virtual memory exhausted"}) {
    if (absl::StrContains(lower, sign)) return true;
  }
  return false;
}

std::string Ending(const std::string& tail) {
  const std::string text = tail.size() > kWordsInError ? tail.substr(tail.size() - kWordsInError)
                                                       : tail;
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  return trimmed.empty() ? "" : absl::StrCat("; its last words: ", trimmed);
}

std::string MiB(uint64_t bytes) { return absl::StrCat(bytes >> 20, " MiB"); }

absl::Status OutOfMemory(const StoreOptions& options, const std::string& stage,
                         const std::string& words) {
  return absl::ResourceExhaustedError(absl::StrCat("the compile needs more than the ",
                                                   MiB(options.compile_memory_bytes),
                                                   " allowed (in stage ", stage, ")", words));
}

// The compiler's own verdict.
absl::Status Verdict(const StoreOptions& options, const Conversation& said,
                     const std::string& tail) {
  const auto& [kind, message] = *said.error;
  const std::string text = message.empty() ? "the compiler gave no reason" : message;
  if (kind != "tolerance" && SpeaksOfMemory(message)) {
    return OutOfMemory(options, said.stage, absl::StrCat(": ", text));
  }
  if (kind == "uncompilable" || kind == "tolerance" || kind == "bad_model") {
    return absl::FailedPreconditionError(text);
  }
  if (kind == "bad_options") return absl::InvalidArgumentError(text);
  if (absl::StrContains(message, strerror(ENOSPC))) return absl::ResourceExhaustedError(text);
  return absl::InternalError(
      absl::StrCat("the compiler failed in stage ", said.stage, ": ", text, Ending(tail)));
}

absl::Status Failure(const StoreOptions& options, const ChildOutcome& outcome,
                     const Conversation& said, const std::string& tail) {
  switch (outcome.reason) {
    case Reason::kCancelled:
      return absl::CancelledError("the compile was cancelled");
    case Reason::kTimeout:
      return absl::ResourceExhaustedError(
          absl::StrCat("the compile took longer than the ",
                       absl::FormatDuration(options.compile_timeout), " allowed (in stage ",
                       said.stage, ")", Ending(tail)));
    case Reason::kMemory:
      return OutOfMemory(options, said.stage, Ending(tail));
    case Reason::kCannotStart:
      return absl::FailedPreconditionError(absl::StrCat("cannot run the compiler's interpreter '",
                                                        options.python,
                                                        "': ", strerror(outcome.value)));
    case Reason::kExited:
    case Reason::kSignalled: break;
  }
  if (said.error) return Verdict(options, said, tail);
  if (SpeaksOfMemory(tail)) return OutOfMemory(options, said.stage, Ending(tail));
  const bool signalled = outcome.reason == Reason::kSignalled;
  return absl::InternalError(absl::StrCat(
      "the compiler ended by ", signalled ? "signal " : "exit code ", outcome.value,
      " in stage ", said.stage, " without a result, expected a last line of done or error",
      Ending(tail)));
}

}  // namespace

absl::Status Worker::CheckConfigured() const {
  if (options_.python.empty()) {
    return absl::FailedPreconditionError(
        "no compiler is configured (no Python interpreter that has torch)");
  }
  return absl::OkStatus();
}

absl::StatusOr<CompilerIdentity> Worker::Describe(const std::function<bool()>& cancelled) const {
  if (absl::Status s = CheckConfigured(); !s.ok()) return s;
  json answer;
  JsonLines lines([&answer](const json& line) { answer = line; });
  BoundedLog log("");
  ChildSpec spec;
  spec.argv = {options_.python, "-m", "belfry_compiler", "describe"};
  spec.env = Environment(options_, "/nonexistent", 1);
  spec.folder = "/";
  spec.timeout = kDescribeTimeout;
  const auto outcome = RunChild(spec, {[&lines](std::string_view text) { lines.Add(text); },
                                       [&log](std::string_view text) { log.Add(text); },
                                       cancelled});
  if (!outcome.ok()) return outcome.status();
  lines.Finish();
  if (outcome->reason == Reason::kCancelled) return absl::CancelledError("cancelled");
  if (outcome->reason == Reason::kCannotStart) {
    return Failure(options_, *outcome, Conversation(), "");
  }
  CompilerIdentity identity = {Field(answer, "compiler"), Field(answer, "torch"),
                               Field(answer, "arch"), Field(answer, "isa")};
  const bool good = outcome->reason == Reason::kExited && outcome->value == 0;
  if (!good || identity.compiler.empty() || identity.torch.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", options_.python, " -m belfry_compiler describe' (compiler in '",
        options_.compiler_dir, "') ",
        good ? "names no compiler or no torch" : absl::StrCat("failed with ", outcome->value),
        ", expected one line of JSON with compiler, torch, arch and isa", Ending(log.Tail())));
  }
  return identity;
}

absl::StatusOr<WorkerResult> Worker::Compile(
    const WorkerJob& job, const std::function<void(const CompileProgress&)>& progress,
    const std::function<bool()>& cancelled) const {
  if (absl::Status s = CheckConfigured(); !s.ok()) return s;
  const std::string out = JoinPath(job.work_folder, "out");
  const std::string scratch = JoinPath(job.work_folder, "scratch");
  const std::string options_file = JoinPath(job.work_folder, "options.json");
  const std::string fields_file = JoinPath(job.work_folder, "key_fields.json");
  if (absl::Status s = files_.CreateDir(scratch); !s.ok()) return s;
  // The canonical text, so that the compiler hashes the very same numbers.
  const std::string& options_text = job.key != nullptr ? job.key->options : job.options_json;
  if (absl::Status s = files_.WriteFile(options_file, options_text); !s.ok()) return s;

  const int threads = std::max(1, UsableCpus() / std::max(1, options_.parallel_compiles));
  ChildSpec spec;
  spec.argv = {options_.python, "-m",        "belfry_compiler", "compile", job.model_path,
               "--target",      job.target,  "--out",           out,       "--options",
               options_file,    "--threads", absl::StrCat(threads)};
  if (!job.isa.empty()) spec.argv.insert(spec.argv.end(), {"--isa", job.isa});
  if (job.key != nullptr) {
    if (absl::Status s = files_.WriteFile(fields_file, job.key->canonical); !s.ok()) return s;
    spec.argv.insert(spec.argv.end(),
                     {"--key", job.key->hex, "--key-fields", fields_file});
  }
  spec.env = Environment(options_, scratch, threads);
  spec.folder = scratch;
  spec.memory_bytes = options_.compile_memory_bytes;
  spec.timeout = options_.compile_timeout;
  spec.low_priority = true;

  const absl::Time start = absl::Now();
  Conversation said;
  BoundedLog log(job.log_path);
  const auto tell = [&] {
    if (!progress) return;
    progress({said.stage, absl::ToDoubleSeconds(absl::Now() - start), log.Tail()});
  };
  JsonLines lines([&](const json& line) {
    if (said.Take(line)) tell();
  });
  tell();
  const auto outcome = RunChild(spec, {[&](std::string_view text) { lines.Add(text); },
                                       [&](std::string_view text) {
                                         log.Add(text);
                                         tell();
                                       },
                                       cancelled});
  if (!outcome.ok()) return outcome.status();
  lines.Finish();
  const bool good = outcome->reason == Reason::kExited && outcome->value == 0 &&
                    said.done_key.has_value() && !said.error.has_value();
  if (!good) return Failure(options_, *outcome, said, log.Tail());
  if (!IsKey(*said.done_key) || (job.key != nullptr && *said.done_key != job.key->hex)) {
    return absl::InternalError(absl::StrCat(
        "the compiler says that it made '", telemetry::Sanitize(*said.done_key, 80), "', expected ",
        job.key != nullptr ? job.key->hex : "a key"));
  }
  return WorkerResult{*said.done_key, out};
}

}  // namespace belfry::artifacts
