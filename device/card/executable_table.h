// The executables of a card by their ids, with a count of who uses each.
#ifndef BELFRY_DEVICE_CARD_EXECUTABLE_TABLE_H_
#define BELFRY_DEVICE_CARD_EXECUTABLE_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "device/card/executable.h"

namespace belfry::card {

// Thread-safe. The lock is held for a look-up or a count only, never while an
// executable is loaded, warmed or destroyed: the execution thread takes it for
// every batch.
class ExecutableTable {
  struct Entry {
    std::unique_ptr<Executable> executable;
    std::string label;
    int uses = 0;  // guarded by the table's mutex
  };

 public:
  // Keeps an executable from being destroyed. Move-only; one thread at a time.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)),
          entry_(std::exchange(other.entry_, nullptr)) {}
    Use& operator=(Use&& other) noexcept;
    ~Use() { Release(); }

    explicit operator bool() const { return entry_ != nullptr; }
    Executable* operator->() const { return entry_->executable.get(); }
    Use Again() const;  // a second use of the same
    void Release();

   private:
    friend class ExecutableTable;
    Use(ExecutableTable* table, Entry* entry) : table_(table), entry_(entry) {}

    ExecutableTable* table_ = nullptr;
    Entry* entry_ = nullptr;
  };

  // ALREADY_EXISTS if the id is taken.
  absl::Status Add(uint32_t id, std::string label, std::unique_ptr<Executable> executable);
  bool Contains(uint32_t id) const;
  // Empty if there is none.
  Use Find(uint32_t id);
  // Hides the executable from Find at once, waits until nobody uses it, destroys
  // it. NOT_FOUND if there is none.
  absl::Status Remove(uint32_t id);
  // Removes all.
  void Clear();

 private:
  void Destroy(std::unique_ptr<Entry> entry);

  mutable absl::Mutex mutex_;
  std::map<uint32_t, std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace belfry::card

#endif  // BELFRY_DEVICE_CARD_EXECUTABLE_TABLE_H_
