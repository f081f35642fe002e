#include "server/telemetry/log.h"

#include <errno.h>
#include <unistd.h>

#include <atomic>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "device/channel/text.h"

namespace belfry::telemetry {
namespace {

std::atomic<LogFormat> g_format{LogFormat::kText};
std::atomic<LogLevel> g_least{LogLevel::kInfo};

std::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: return "error";
  }
  return "error";
}

// 'clean' comes from Sanitize: printable ASCII in which a backslash always
// begins an escape, so a quote can be escaped without ambiguity.
void AppendTextValue(std::string& line, std::string_view clean) {
  const bool plain = !clean.empty() && clean.find_first_of(" =\"") == std::string_view::npos;
  if (plain) {
    line += clean;
    return;
  }
  line += '"';
  for (char c : clean) {
    if (c == '"') line += '\\';
    line += c;
  }
  line += '"';
}

void AppendJsonString(std::string& line, std::string_view clean) {
  line += '"';
  for (char c : clean) {
    if (c == '"' || c == '\\') line += '\\';
    line += c;
  }
  line += '"';
}

std::string TextLine(LogLevel level, std::string_view event, LogFields fields) {
  std::string line = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  absl::StrAppendFormat(&line, " %-7s ", AbslView(LevelName(level)));
  line += Sanitize(event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", Sanitize(field.key), "=");
    AppendTextValue(line, Sanitize(field.value));
  }
  return line;
}

std::string JsonLine(LogLevel level, std::string_view event, LogFields fields) {
  std::string line =
      absl::FormatTime("{\"time\":\"%Y-%m-%dT%H:%M:%E3SZ\"", absl::Now(), absl::UTCTimeZone());
  absl::StrAppend(&line, ",\"level\":\"", AbslView(LevelName(level)), "\",\"event\":");
  AppendJsonString(line, Sanitize(event));
  for (const LogField& field : fields) {
    line += ',';
    AppendJsonString(line, Sanitize(field.key));
    line += ':';
    if (field.bare) {
      line += field.value;
    } else {
      AppendJsonString(line, Sanitize(field.value));
    }
  }
  line += '}';
  return line;
}

void Write(LogLevel level, std::string_view event, LogFields fields) {
  if (level < g_least.load(std::memory_order_relaxed)) return;
  std::string line = g_format.load(std::memory_order_relaxed) == LogFormat::kJson
                         ? JsonLine(level, event, fields)
                         : TextLine(level, event, fields);
  line += '\n';
  // One call, so that lines of several threads do not mix. What the kernel
  // does not take (a full pipe of a dying reader) is lost: a log must not stop
  // the service.
  const int saved = errno;
  ssize_t done;
  do {
    done = write(STDERR_FILENO, line.data(), line.size());
  } while (done < 0 && errno == EINTR);
  errno = saved;
}

}  // namespace

void SetLogFormat(LogFormat format) { g_format.store(format, std::memory_order_relaxed); }
void SetLogLevel(LogLevel least) { g_least.store(least, std::memory_order_relaxed); }

void LogDebug(std::string_view event, LogFields fields) { Write(LogLevel::kDebug, event, fields); }
void LogInfo(std::string_view event, LogFields fields) { Write(LogLevel::kInfo, event, fields); }
void LogWarning(std::string_view event, LogFields fields) {
  Write(LogLevel::kWarning, event, fields);
}
void LogError(std::string_view event, LogFields fields) { Write(LogLevel::kError, event, fields); }

std::string Sanitize(std::string_view bytes, size_t limit) {
  static constexpr char kHex[] = "0123456789abcdef";
  const size_t taken = bytes.size() < limit ? bytes.size() : limit;
  std::string out;
  out.reserve(taken + 16);
  for (size_t i = 0; i < taken; ++i) {
    const unsigned char c = static_cast<unsigned char>(bytes[i]);
    switch (c) {
      case '\\': out += "\\\\"; continue;
      case '\n': out += "\\n"; continue;
      case '\r': out += "\\r"; continue;
      case '\t': out += "\\t"; continue;
      default: break;
    }
    if (c >= 0x20 && c < 0x7f) {
      out += static_cast<char>(c);
    } else {
      // Not even valid UTF-8 passes: it holds terminal controls (C1) and marks
      // that turn the reading direction.
      out += "\\x";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    }
  }
  if (taken < bytes.size()) absl::StrAppend(&out, "...(", bytes.size() - taken, " more bytes)");
  return out;
}

}  // namespace belfry::telemetry
