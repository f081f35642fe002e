// The JSON of the control channel; README.md specifies it.
#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "device/channel/control.h"
#include "device/channel/json.h"
#include "device/channel/text.h"

namespace belfry::channel {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 5> kOpNames = {"load", "warm", "unload", "memory",
                                                      "shutdown"};
constexpr size_t kMaxPath = 4096;
constexpr size_t kMaxLabel = 1024;
constexpr size_t kMaxName = 256;
constexpr size_t kMaxShapes = 4096;
constexpr size_t kMaxSymbols = 64;
constexpr size_t kMaxDescribeFields = 64;
// Leaves room for JSON escapes (a byte may become six) within a message.
constexpr size_t kMaxErrorText = 8 << 10;

absl::StatusOr<json> ParseMessage(std::string_view message) {
  return ParseJsonObject(message, kMaxControlBytes, 8);
}

absl::StatusOr<Op> ParseOp(const JsonView& root) {
  auto field = root.Field("op");
  if (!field.ok()) return field.status();
  auto name = field->String(32);
  if (!name.ok()) return name.status();
  for (size_t i = 0; i < kOpNames.size(); ++i) {
    if (*name == kOpNames[i]) return static_cast<Op>(i);
  }
  return field->Wrong("load, warm, unload, memory or shutdown");
}

absl::Status ReadLoad(const JsonView& root, Request* request) {
  const auto dir = root.Optional("dir");
  const auto builtin = root.Optional("builtin");
  if (dir.has_value() == builtin.has_value()) {
    return absl::InvalidArgumentError("load: expected exactly one of dir and builtin");
  }
  if (dir) {
    auto text = dir->String(kMaxPath);
    if (!text.ok()) return text.status();
    if (!absl::StartsWith(*text, "/")) return dir->Wrong("an absolute path");
    request->dir = *std::move(text);
  } else {
    auto text = builtin->String(kMaxName);
    if (!text.ok()) return text.status();
    if (text->empty()) return builtin->Wrong("the name of a built-in model");
    request->builtin = *std::move(text);
  }
  if (const auto label = root.Optional("label")) {
    auto text = label->String(kMaxLabel);
    if (!text.ok()) return text.status();
    request->label = *std::move(text);
  }
  return absl::OkStatus();
}

absl::Status ReadShapes(const JsonView& root, Request* request) {
  auto shapes = root.Field("shapes");
  if (!shapes.ok()) return shapes.status();
  auto count = shapes->ArraySize(kMaxShapes);
  if (!count.ok()) return count.status();
  request->shapes.resize(*count);
  for (size_t i = 0; i < *count; ++i) {
    const JsonView shape = shapes->Element(i);
    if (auto s = shape.IsObject(kMaxSymbols); !s.ok()) return s;
    for (const auto& [name, value] : shape.value().items()) {
      auto size = JsonView(value, absl::StrCat(shape.path(), ".", name))
                      .Int(0, std::numeric_limits<int64_t>::max());
      if (!size.ok()) return size.status();
      request->shapes[i].emplace_back(name, *size);
    }
  }
  return absl::OkStatus();
}

// Cuts between characters, not within one.
std::string_view Cut(std::string_view text, size_t max) {
  if (text.size() <= max) return text;
  while (max > 0 && (static_cast<uint8_t>(text[max]) & 0xc0) == 0x80) --max;
  return text.substr(0, max);
}

absl::StatusCode ParseCode(std::string_view name) {
  for (int i = 1; i <= 16; ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    if (absl::StatusCodeToString(code) == name) return code;
  }
  return absl::StatusCode::kUnknown;
}

absl::StatusOr<std::map<std::string, std::string>> StringMap(const JsonView& view) {
  if (auto s = view.IsObject(kMaxDescribeFields); !s.ok()) return s;
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : view.value().items()) {
    auto text = JsonView(value, absl::StrCat(view.path(), ".", name)).String(kMaxLabel);
    if (!text.ok()) return text.status();
    out.emplace(name, *std::move(text));
  }
  return out;
}

}  // namespace

std::string_view OpName(Op op) {
  const auto i = static_cast<size_t>(op);
  return i < kOpNames.size() ? kOpNames[i] : "?";
}

std::string EncodeRequest(const Request& request) {
  json j = {{"id", request.id}, {"op", OpName(request.op)}};
  switch (request.op) {
    case Op::kLoad:
      j["executable"] = request.executable;
      if (!request.dir.empty()) j["dir"] = request.dir;
      if (!request.builtin.empty()) j["builtin"] = request.builtin;
      j["label"] = Cut(request.label, kMaxLabel);
      break;
    case Op::kWarm: {
      j["executable"] = request.executable;
      json shapes = json::array();
      for (const auto& shape : request.shapes) {
        json one = json::object();
        for (const auto& [name, size] : shape) one[name] = size;
        shapes.push_back(std::move(one));
      }
      j["shapes"] = std::move(shapes);
      break;
    }
    case Op::kUnload:
      j["executable"] = request.executable;
      break;
    case Op::kMemory:
    case Op::kShutdown:
      break;
  }
  return JsonText(j);
}

std::string EncodeReply(const Reply& reply) {
  json j = {{"id", reply.id}, {"ok", reply.status.ok()}};
  if (reply.status.ok()) {
    j["resident_bytes"] = reply.resident_bytes;
  } else {
    j["code"] = absl::StatusCodeToString(reply.status.code());
    j["error"] = Cut(StdView(reply.status.message()), kMaxErrorText);
  }
  j["memory_used"] = reply.memory_used;
  j["memory_total"] = reply.memory_total;
  return JsonText(j);
}

std::string EncodeHello(const Hello& hello) {
  return JsonText({{"hello",
                    {{"driver", hello.driver},
                     {"pid", hello.pid},
                     {"describe", json(hello.describe)}}}});
}

uint64_t MessageId(std::string_view message) {
  const auto parsed = ParseMessage(message);
  if (!parsed.ok()) return 0;
  const auto id = JsonView(*parsed, "").UintField("id", std::numeric_limits<uint64_t>::max());
  return id.ok() ? *id : 0;
}

absl::StatusOr<Request> ParseRequest(std::string_view message) {
  auto parsed = ParseMessage(message);
  if (!parsed.ok()) return parsed.status();
  const JsonView root(*parsed, "");
  Request request;
  auto id = root.UintField("id", std::numeric_limits<uint64_t>::max());
  if (!id.ok()) return id.status();
  request.id = *id;
  auto op = ParseOp(root);
  if (!op.ok()) return op.status();
  request.op = *op;
  if (request.op == Op::kLoad || request.op == Op::kWarm || request.op == Op::kUnload) {
    auto executable = root.UintField("executable", std::numeric_limits<uint32_t>::max());
    if (!executable.ok()) return executable.status();
    request.executable = static_cast<uint32_t>(*executable);
  }
  if (request.op == Op::kLoad) {
    if (auto s = ReadLoad(root, &request); !s.ok()) return s;
  } else if (request.op == Op::kWarm) {
    if (auto s = ReadShapes(root, &request); !s.ok()) return s;
  }
  return request;
}

absl::StatusOr<Reply> ParseReply(std::string_view message) {
  auto parsed = ParseMessage(message);
  if (!parsed.ok()) return parsed.status();
  const JsonView root(*parsed, "");
  Reply reply;
  auto id = root.UintField("id", std::numeric_limits<uint64_t>::max());
  if (!id.ok()) return id.status();
  reply.id = *id;
  auto ok = root.BoolField("ok");
  if (!ok.ok()) return ok.status();
  if (!*ok) {
    auto code = root.StringField("code", 64);
    if (!code.ok()) return code.status();
    auto text = root.StringField("error", kMaxControlBytes);
    if (!text.ok()) return text.status();
    reply.status = absl::Status(ParseCode(*code), *text);
  }
  const std::array<std::pair<std::string_view, uint64_t*>, 3> numbers = {{
      {"resident_bytes", &reply.resident_bytes},
      {"memory_used", &reply.memory_used},
      {"memory_total", &reply.memory_total},
  }};
  for (const auto& [name, into] : numbers) {
    const auto field = root.Optional(name);
    if (!field) continue;
    auto value = field->Uint(std::numeric_limits<uint64_t>::max());
    if (!value.ok()) return value.status();
    *into = *value;
  }
  return reply;
}

absl::StatusOr<Hello> ParseHello(std::string_view message) {
  auto parsed = ParseMessage(message);
  if (!parsed.ok()) return parsed.status();
  auto view = JsonView(*parsed, "").Field("hello");
  if (!view.ok()) return view.status();
  Hello hello;
  auto driver = view->StringField("driver", kMaxName);
  if (!driver.ok()) return driver.status();
  hello.driver = *std::move(driver);
  auto pid = view->IntField("pid", 1, std::numeric_limits<int>::max());
  if (!pid.ok()) return pid.status();
  hello.pid = static_cast<int>(*pid);
  auto describe = view->Field("describe");
  if (!describe.ok()) return describe.status();
  auto fields = StringMap(*describe);
  if (!fields.ok()) return fields.status();
  hello.describe = *std::move(fields);
  return hello;
}

absl::StatusOr<std::map<std::string, std::string>> ParseDescribe(std::string_view text) {
  auto parsed = ParseMessage(text);
  if (!parsed.ok()) return parsed.status();
  return StringMap(JsonView(*parsed, ""));
}

}  // namespace belfry::channel
