#include "device/card/executable_table.h"

#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace belfry::card {
namespace {

class Counted final : public Executable {
 public:
  explicit Counted(std::atomic<int>* alive) : alive_(alive) { ++*alive_; }
  ~Counted() override { --*alive_; }
  absl::Status Check(std::span<const channel::TensorDesc>) const override {
    return absl::OkStatus();
  }
  void Submit(belfry_call*) override {}
  absl::Status Warm(const std::vector<std::pair<std::string, int64_t>>&) override {
    return absl::OkStatus();
  }
  uint64_t resident_bytes() const override { return 0; }

 private:
  std::atomic<int>* const alive_;
};

TEST(ExecutableTableTest, AddsFindsRemoves) {
  std::atomic<int> alive{0};
  ExecutableTable table;
  EXPECT_TRUE(table.Add(1, "a", std::make_unique<Counted>(&alive)).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(table.Add(1, "b", std::make_unique<Counted>(&alive))));
  EXPECT_EQ(alive, 1);
  EXPECT_TRUE(table.Find(1));
  EXPECT_FALSE(table.Find(2));
  EXPECT_TRUE(absl::IsNotFound(table.Remove(2)));
  EXPECT_TRUE(table.Remove(1).ok());
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(table.Find(1));
}

TEST(ExecutableTableTest, RemoveWaitsForEveryUse) {
  std::atomic<int> alive{0};
  ExecutableTable table;
  ASSERT_TRUE(table.Add(1, "a", std::make_unique<Counted>(&alive)).ok());
  ExecutableTable::Use first = table.Find(1);
  ExecutableTable::Use second = first.Again();
  std::thread remover([&] { EXPECT_TRUE(table.Remove(1).ok()); });
  while (table.Contains(1)) std::this_thread::yield();
  EXPECT_FALSE(table.Find(1));
  first.Release();
  EXPECT_EQ(alive, 1);
  ExecutableTable::Use moved = std::move(second);
  EXPECT_EQ(alive, 1);
  moved.Release();
  remover.join();
  EXPECT_EQ(alive, 0);
}

TEST(ExecutableTableTest, ManyUsersWhileItIsRemoved) {
  std::atomic<int> alive{0};
  for (int round = 0; round < 50; ++round) {
    ExecutableTable table;
    ASSERT_TRUE(table.Add(1, "a", std::make_unique<Counted>(&alive)).ok());
    std::vector<std::thread> users;
    for (int i = 0; i < 3; ++i) {
      users.emplace_back([&] {
        while (ExecutableTable::Use use = table.Find(1)) EXPECT_EQ(alive, 1);
      });
    }
    EXPECT_TRUE(table.Remove(1).ok());
    EXPECT_EQ(alive, 0);
    for (auto& u : users) u.join();
  }
}

}  // namespace
}  // namespace belfry::card
