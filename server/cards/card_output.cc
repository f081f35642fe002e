#include "server/cards/card_output.h"

#include <errno.h>
#include <unistd.h>

#include "server/telemetry/log.h"

namespace belfry::cards {
namespace {

constexpr int kReadsPerDrain = 16;

}  // namespace

void CardOutput::Drain(MonoNs now, bool final) {
  char buffer[4096];
  for (int i = 0; fd_ && i < kReadsPerDrain; ++i) {
    const ssize_t n = read(fd_.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      fd_.Reset();
      final = true;
      break;
    }
    Add(std::string_view(buffer, static_cast<size_t>(n)), now);
  }
  if (final && !line_.empty()) EndLine(now);
}

void CardOutput::Add(std::string_view bytes, MonoNs now) {
  for (const char c : bytes) {
    if (c == '\n') {
      if (!line_.empty()) EndLine(now);
    } else if (line_.size() < kMaxLine) {
      line_.push_back(c);
    }
  }
}

void CardOutput::EndLine(MonoNs now) {
  last_line_ = telemetry::Sanitize(line_, kMaxLine);
  line_.clear();
  if (now - window_start_ >= kWindow) {
    if (suppressed_ > 0) {
      telemetry::LogWarning("card output suppressed", {{"card", card_}, {"lines", suppressed_}});
    }
    window_start_ = now;
    window_lines_ = suppressed_ = 0;
  }
  if (++window_lines_ > kLinesPerWindow) {
    ++suppressed_;
    return;
  }
  telemetry::LogInfo("card output", {{"card", card_}, {"line", last_line_}});
}

}  // namespace belfry::cards
