// A card driver: the shared library, and the card that it opened.
#ifndef BELFRY_DEVICE_CARD_DRIVER_LIBRARY_H_
#define BELFRY_DEVICE_CARD_DRIVER_LIBRARY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "device/card/options.h"
#include "device/driver.h"

namespace belfry::card {

// Loads libbelfry_driver_NAME.so and checks its interface. Never unloaded: code
// of a driver (thread-local destructors, threads of its runtime) may outlive
// any moment that we could choose.
absl::StatusOr<const belfry_driver*> LoadDriver(const std::string& name,
                                                const std::string& driver_dir);

// Owns an open card. Threads: as device/driver.h says.
class OpenCard {
 public:
  static absl::StatusOr<std::unique_ptr<OpenCard>> Open(const belfry_driver* driver,
                                                        const Options& options);
  OpenCard(const OpenCard&) = delete;
  OpenCard& operator=(const OpenCard&) = delete;
  ~OpenCard();

  const belfry_driver& driver() const { return *driver_; }
  belfry_card* card() const { return card_; }

  struct Memory {
    uint64_t used = 0;
    uint64_t total = 0;
  };
  Memory memory() const;

 private:
  OpenCard(const belfry_driver* driver, belfry_card* card) : driver_(driver), card_(card) {}

  const belfry_driver* const driver_;
  belfry_card* const card_;
};

// The text of an error, bounded and of printable length even if a driver forgot
// to write one.
std::string ErrorText(const belfry_error& error);

}  // namespace belfry::card

#endif  // BELFRY_DEVICE_CARD_DRIVER_LIBRARY_H_
