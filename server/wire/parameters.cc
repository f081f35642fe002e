#include "server/wire/parameters.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "server/wire/text.h"


namespace belfry::wire {

namespace {

// What a parameter holds, for messages: "string_param 'abc'".
std::string ValueText(const Parameter& p) {
  switch (p.kind) {
    case Parameter::Kind::kNone:
      return "no value";
    case Parameter::Kind::kBool:
      return Cat("bool_param ", p.bool_value ? "true" : "false");
    case Parameter::Kind::kInt64:
      return Cat("int64_param ", p.int64_value);
    case Parameter::Kind::kString:
      return Cat("string_param ", Quote(p.string_value));
    case Parameter::Kind::kDouble:
      return Cat("double_param ", p.double_value);
    case Parameter::Kind::kUint64:
      return Cat("uint64_param ", p.uint64_value);
  }
  return "no value";
}

// A count that is never negative, from either integer field; too large a value
// counts as the largest. 'where' is "" or "output 'x': ".
std::optional<uint64_t> ReadCount(const Parameter& p, std::string_view where, uint64_t largest,
                                  FaultList* faults) {
  if (p.kind == Parameter::Kind::kUint64) return std::min(p.uint64_value, largest);
  if (p.kind == Parameter::Kind::kInt64 && p.int64_value >= 0) {
    return std::min(static_cast<uint64_t>(p.int64_value), largest);
  }
  faults->Add(where, "parameter ", Quote(p.key), ": got ", ValueText(p),
              ", expected int64_param or uint64_param, at least 0");
  return std::nullopt;
}

// True for the values with which clients say "no sequence".
bool SaysNoSequence(const Parameter& p) {
  switch (p.kind) {
    case Parameter::Kind::kBool:
      return !p.bool_value;
    case Parameter::Kind::kInt64:
      return p.int64_value == 0;
    case Parameter::Kind::kUint64:
      return p.uint64_value == 0;
    case Parameter::Kind::kString:
      return p.string_value.empty();
    case Parameter::Kind::kNone:
    case Parameter::Kind::kDouble:
      return false;
  }
  return false;
}

void RefuseSharedMemory(const Parameter& p, std::string_view where, FaultList* faults) {
  if (!p.key.starts_with("shared_memory_")) return;
  faults->Add(where, "parameter ", Quote(p.key),
              ": shared memory is not offered, expected the data in the message");
}

}  // namespace

void ApplyRequestParameters(const ParameterList& parameters, Request* request, FaultList* faults) {
  for (const Parameter& p : parameters.entries) {
    if (p.key == "priority") {
      if (auto v = ReadCount(p, "", std::numeric_limits<uint32_t>::max(), faults)) {
        request->priority = static_cast<uint32_t>(*v);
      }
    } else if (p.key == "timeout") {
      if (auto v = ReadCount(p, "", std::numeric_limits<int64_t>::max(), faults)) {
        request->timeout_us = static_cast<int64_t>(*v);
      }
    } else if (p.key == "sequence_id" || p.key == "sequence_start" || p.key == "sequence_end") {
      if (!SaysNoSequence(p)) {
        faults->Add("parameter ", Quote(p.key), ": got ", ValueText(p),
                    ", but sequences are not offered: every request stands alone");
      }
    } else {
      RefuseSharedMemory(p, "", faults);
    }
  }
}

void CheckInputParameters(const ParameterList& parameters, std::string_view input,
                          FaultList* faults) {
  for (const Parameter& p : parameters.entries) {
    if (!p.key.starts_with("shared_memory_")) continue;
    RefuseSharedMemory(p, Cat("input ", Quote(input), ": "), faults);
  }
}

void ApplyOutputParameters(const ParameterList& parameters, RequestedOutput* output,
                           FaultList* faults) {
  for (const Parameter& p : parameters.entries) {
    const std::string where = Cat("output ", Quote(output->name), ": ");
    if (p.key == "classification") {
      if (auto v = ReadCount(p, where, std::numeric_limits<uint32_t>::max(), faults)) {
        output->classification = static_cast<uint32_t>(*v);
      }
    } else {
      RefuseSharedMemory(p, where, faults);
    }
  }
}

}  // namespace belfry::wire
