// Structured logging to stderr: one line an event, as text for people or JSON.
//
//   LogInfo("card lost", {{"card", name}, {"reason", why}});
//
// Values are escaped (no control character, no newline) and cut to 1024 bytes:
// nothing that a client sends reaches the log raw. Thread-safe; a line is one
// write(2).
#ifndef BELFRY_SERVER_TELEMETRY_LOG_H_
#define BELFRY_SERVER_TELEMETRY_LOG_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace belfry::telemetry {

enum class LogFormat { kText, kJson };
enum class LogLevel { kDebug, kInfo, kWarning, kError };

void SetLogFormat(LogFormat format);
void SetLogLevel(LogLevel least);

struct LogField {
  std::string_view key;
  std::string value;
  bool bare = false;  // a number or a truth value: JSON without quotes
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, bool v) : key(k), value(v ? "true" : "false"), bare(true) {}
  template <typename T>
    requires std::is_arithmetic_v<T>
  LogField(std::string_view k, T v) : key(k), value(absl::StrCat(v)) {
    // JSON knows neither inf nor nan.
    bare = value.find_first_of("in") == std::string::npos;
  }
};

using LogFields = std::initializer_list<LogField>;
void LogDebug(std::string_view event, LogFields fields = {});
void LogInfo(std::string_view event, LogFields fields = {});
void LogWarning(std::string_view event, LogFields fields = {});
void LogError(std::string_view event, LogFields fields = {});

// Printable, escaped, cut to 'limit' bytes of the original; quotes not added.
std::string Sanitize(std::string_view bytes, size_t limit = 1024);

}  // namespace belfry::telemetry

#endif  // BELFRY_SERVER_TELEMETRY_LOG_H_
