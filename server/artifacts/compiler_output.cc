#include "server/artifacts/compiler_output.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace belfry::artifacts {
namespace {

constexpr size_t kMaxLine = 64 << 10;
constexpr size_t kTailBytes = 4 << 10;
constexpr uint64_t kMaxLogBytes = 1 << 20;
constexpr std::string_view kCutNote = "\n[cut here; the end follows]\n";

bool WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

void JsonLines::Add(std::string_view piece) {
  while (!piece.empty()) {
    const size_t newline = piece.find('\n');
    const std::string_view part = piece.substr(0, newline);
    if (line_.size() + part.size() > kMaxLine) {
      too_long_ = true;
      line_.clear();
    } else if (!too_long_) {
      line_ += part;
    }
    if (newline == std::string_view::npos) return;
    Finish();
    piece.remove_prefix(newline + 1);
  }
}

void JsonLines::Finish() {
  if (too_long_) {
    ++dropped_;
  } else if (!line_.empty()) {
    Line(line_);
  }
  too_long_ = false;
  line_.clear();
}

void JsonLines::Line(std::string_view line) {
  const nlohmann::json value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (value.is_object()) {
    on_object_(value);
  } else {
    ++dropped_;
  }
}

BoundedLog::BoundedLog(const std::string& path) {
  if (!path.empty()) {
    fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  }
}

BoundedLog::~BoundedLog() {
  if (fd_ < 0) return;
  // The cause of a failure mostly stands at the end.
  if (cut_ && WriteAll(fd_, kCutNote)) WriteAll(fd_, tail_);
  close(fd_);
}

void BoundedLog::Add(std::string_view piece) {
  if (fd_ >= 0 && !cut_) {
    const size_t room = static_cast<size_t>(kMaxLogBytes - written_);
    const std::string_view part = piece.substr(0, room);
    if (!WriteAll(fd_, part)) {
      close(fd_);
      fd_ = -1;
    }
    written_ += part.size();
    cut_ = part.size() < piece.size();
  }
  tail_ += piece.substr(piece.size() - std::min(piece.size(), kTailBytes));
  if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
}

std::string BoundedLog::Tail() const {
  std::string text = tail_;
  for (char& c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte >= 0x7f) {
      c = '?';
    } else if (byte < 0x20 && c != '\n' && c != '\t') {
      c = ' ';
    }
  }
  return text;
}

}  // namespace belfry::artifacts
