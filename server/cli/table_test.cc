#include "server/cli/table.h"

#include <gtest/gtest.h>

namespace belfry::cli {
namespace {

TEST(TableTest, AlignsColumns) {
  Table table({{"MODEL"}, {"N", Table::Align::kRight}, {"NOTE"}});
  table.Add({"card-fraud", "1", "fine"});
  table.Add({"x", "1000", ""});
  EXPECT_EQ(table.ToString(),
            "MODEL          N  NOTE\n"
            "card-fraud     1  fine\n"
            "x           1000  -\n");
}

TEST(TableTest, CountsCharactersNotBytes) {
  Table table({{"A"}, {"B"}});
  table.Add({"größe", "1"});
  table.Add({"short", "2"});
  EXPECT_EQ(table.ToString(), "A      B\ngröße  1\nshort  2\n");
}

TEST(TableTest, KeepsToOneLineARow) {
  Table table({{"A"}, {"B"}});
  table.Add({"two\nlines"});
  EXPECT_EQ(table.ToString(), "A          B\ntwo lines  -\n");
}

TEST(TableTest, FormatsSizes) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(1023), "1023 B");
  EXPECT_EQ(Bytes(1536), "1.5 KiB");
  EXPECT_EQ(Bytes(3ull << 30), "3.0 GiB");
}

TEST(TableTest, FormatsTimes) {
  EXPECT_EQ(Seconds(0.00083), "830 us");
  EXPECT_EQ(Seconds(0.0123), "12.3 ms");
  EXPECT_EQ(Seconds(4.56), "4.56 s");
  EXPECT_EQ(Seconds(200), "3 min 20 s");
  EXPECT_EQ(Seconds(7260), "2 h 1 min");
}

}  // namespace
}  // namespace belfry::cli
