#include "server/cards/link_cell.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace belfry::cards {
namespace {

TEST(LinkCellTest, HoldsAndLetsGo) {
  LinkCell<int> cell;
  EXPECT_EQ(cell.Get(), nullptr);
  EXPECT_FALSE(cell.present());
  const auto value = std::make_shared<int>(3);
  cell.Set(value);
  EXPECT_EQ(cell.Get(), value);
  EXPECT_EQ(value.use_count(), 2);
  cell.Clear();
  EXPECT_EQ(cell.Get(), nullptr);
  EXPECT_EQ(value.use_count(), 1);
}

// A reader must never see an object that is gone: each has a flag that its
// destructor clears. (Under a sanitizer this test is sharper still.)
TEST(LinkCellTest, ReadersNeverSeeADeadObject) {
  struct Canary {
    std::atomic<bool> alive{true};
    ~Canary() { alive.store(false); }
  };
  LinkCell<Canary> cell;
  std::atomic<bool> stop{false};
  std::atomic<int64_t> seen{0};
  std::atomic<int64_t> dead{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop.load()) {
        if (const auto canary = cell.Get(); canary != nullptr) {
          if (!canary->alive.load()) dead.fetch_add(1);
          seen.fetch_add(1);
        }
      }
    });
  }
  for (int i = 0; i < 2000 || seen.load() == 0; ++i) {
    cell.Set(std::make_shared<Canary>());
    if (i % 16 == 0) std::this_thread::yield();
    cell.Clear();
  }
  stop.store(true);
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(dead.load(), 0);
}

}  // namespace
}  // namespace belfry::cards
