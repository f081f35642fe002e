// One immutable view of the catalog, and the look-ups on it.
#ifndef BELFRY_SERVER_SERVING_CATALOG_SNAPSHOT_H_
#define BELFRY_SERVER_SERVING_CATALOG_SNAPSHOT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/serving/catalog.h"

namespace belfry::serving {

using EntryPtr = std::shared_ptr<const VersionEntry>;

// The versions of one model. Immutable once in a snapshot.
struct CatalogModel {
  struct Item {
    int64_t number = 0;
    EntryPtr entry;
  };
  std::vector<Item> items;    // ascending
  EntryPtr newest_ready;      // null if there is none
  std::map<std::string, int64_t, std::less<>> aliases;

  const EntryPtr* ByNumber(int64_t number) const;
  void Put(int64_t number, EntryPtr entry);
  void Remove(int64_t number);

 private:
  void ChooseNewest();
};

// Immutable, shared by all readers. Models are shared between successive
// snapshots, so that a change copies one model and the table of names.
struct CatalogSnapshot {
  uint64_t generation = 0;
  bool draining = false;
  std::string draining_why;
  std::map<std::string, std::shared_ptr<const CatalogModel>, std::less<>> models;

  absl::StatusOr<EntryPtr> Resolve(std::string_view model, std::string_view version) const;
  absl::StatusOr<EntryPtr> Find(std::string_view model, std::string_view version) const;

 private:
  absl::StatusOr<const CatalogModel*> Model(std::string_view name) const;
};

}  // namespace belfry::serving

#endif  // BELFRY_SERVER_SERVING_CATALOG_SNAPSHOT_H_
