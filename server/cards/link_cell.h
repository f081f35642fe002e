// A shared_ptr that any thread reads without a lock and one thread replaces.
#ifndef BELFRY_SERVER_CARDS_LINK_CELL_H_
#define BELFRY_SERVER_CARDS_LINK_CELL_H_

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

namespace belfry::cards {

// Readers announce themselves in a counter for the few instructions that copying
// the pointer takes; the writer hides the pointer, then waits for the counter
// to fall to zero before it drops its own reference. A reader never waits. (The
// distribution's std::atomic<std::shared_ptr> takes a lock bit that a reader
// may be descheduled with.)
template <typename T>
class LinkCell {
 public:
  // Any thread, wait-free. Null while the cell is empty.
  std::shared_ptr<T> Get() const {
    if (!present()) return nullptr;
    readers_.fetch_add(1, std::memory_order_seq_cst);
    // seq_cst with Clear(): either this load sees null, or Clear() sees the
    // reader and leaves 'owner_' alone.
    const std::shared_ptr<T>* owner = current_.load(std::memory_order_seq_cst);
    std::shared_ptr<T> copy = owner == nullptr ? nullptr : *owner;
    readers_.fetch_sub(1, std::memory_order_seq_cst);
    return copy;
  }
  bool present() const { return current_.load(std::memory_order_acquire) != nullptr; }

  // The writer's thread only. Set: the cell must be empty.
  void Set(std::shared_ptr<T> value) {
    owner_ = std::move(value);
    current_.store(&owner_, std::memory_order_seq_cst);
  }
  void Clear() {
    current_.store(nullptr, std::memory_order_seq_cst);
    // Nobody new gets past present(), so this ends as soon as those inside are
    // through with their copy.
    while (readers_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
    owner_.reset();
  }

 private:
  std::shared_ptr<T> owner_;
  std::atomic<const std::shared_ptr<T>*> current_{nullptr};
  mutable std::atomic<int> readers_{0};
};

}  // namespace belfry::cards

#endif  // BELFRY_SERVER_CARDS_LINK_CELL_H_
