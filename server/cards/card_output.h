// What a card process writes to stdout and stderr, as lines of our log.
#ifndef BELFRY_SERVER_CARDS_CARD_OUTPUT_H_
#define BELFRY_SERVER_CARDS_CARD_OUTPUT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "server/base/clock.h"
#include "server/cards/unique_fd.h"

namespace belfry::cards {

// Reads the other end of the process's output pipe, so that a driver's or a
// library's words come out as structured log lines with the card's name, and the
// last of them can explain why the process ended. A process that floods is cut
// off: kLinesPerWindow lines in kWindow are logged, the rest is read and
// counted. Not synchronised; the supervisor's thread owns it.
class CardOutput {
 public:
  static constexpr size_t kMaxLine = 1024;
  static constexpr int kLinesPerWindow = 200;
  static constexpr MonoNs kWindow = 10'000'000'000;

  CardOutput() = default;
  // 'fd' must be non-blocking.
  CardOutput(UniqueFd fd, std::string card) : fd_(std::move(fd)), card_(std::move(card)) {}

  int fd() const { return fd_.get(); }  // -1 at the end of the output
  // Logs what has come, at most a bounded part of it so that a flood does not
  // hold up the caller. 'final': nothing more comes, an unfinished line counts.
  void Drain(MonoNs now, bool final = false);
  const std::string& last_line() const { return last_line_; }

 private:
  void Add(std::string_view bytes, MonoNs now);
  void EndLine(MonoNs now);

  UniqueFd fd_;
  std::string card_;
  std::string line_;       // unfinished
  std::string last_line_;  // printable
  MonoNs window_start_ = 0;
  int window_lines_ = 0;
  int suppressed_ = 0;
};

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_CARD_OUTPUT_H_
