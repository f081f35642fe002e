// What the compiler writes: JSON lines on stdout, words for people on stderr.
#ifndef BELFRY_SERVER_ARTIFACTS_COMPILER_OUTPUT_H_
#define BELFRY_SERVER_ARTIFACTS_COMPILER_OUTPUT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace belfry::artifacts {

// Splits a stream into lines and keeps those that are JSON objects. Lines over
// 64 KiB and anything else are dropped (and counted): a compiler that prints
// rubbish costs no memory. One thread.
class JsonLines {
 public:
  explicit JsonLines(std::function<void(const nlohmann::json&)> on_object)
      : on_object_(std::move(on_object)) {}
  void Add(std::string_view piece);
  void Finish();  // the last line may lack its newline
  int dropped() const { return dropped_; }

 private:
  void Line(std::string_view line);

  const std::function<void(const nlohmann::json&)> on_object_;
  std::string line_;
  bool too_long_ = false;
  int dropped_ = 0;
};

// Keeps the last 4 KiB of a stream, and writes it to a file up to a cap. One
// thread.
class BoundedLog {
 public:
  // An empty path: no file. A file that cannot be written is done without.
  explicit BoundedLog(const std::string& path);
  ~BoundedLog();
  BoundedLog(const BoundedLog&) = delete;
  void Add(std::string_view piece);
  // Printable: control characters but newline and tab are blanks, bytes beyond
  // ASCII are '?'.
  std::string Tail() const;

 private:
  int fd_ = -1;
  uint64_t written_ = 0;
  bool cut_ = false;
  std::string tail_;
};

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_COMPILER_OUTPUT_H_
