// Text in columns.
#ifndef BELFRY_SERVER_CLI_TABLE_H_
#define BELFRY_SERVER_CLI_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace belfry::cli {

// Columns are as wide as their widest cell (counted in characters, not bytes),
// two spaces apart; the last one is not padded. Not thread-safe.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Missing cells are empty, an empty cell is shown as "-".
  void Add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string ToString() const;

 private:
  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "12.3 MiB"
std::string Bytes(uint64_t bytes);
// "830 us", "12.3 ms", "4.56 s", "3 min 20 s"
std::string Seconds(double seconds);

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_TABLE_H_
