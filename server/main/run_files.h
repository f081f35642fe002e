// What a running server leaves in DATA-DIR/run: a lock and its addresses.
#ifndef BELFRY_SERVER_MAIN_RUN_FILES_H_
#define BELFRY_SERVER_MAIN_RUN_FILES_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace belfry {

struct Addresses {
  std::string inference, admin, metrics;
};

// Owns the lock for as long as it lives, and takes addresses.json away when it
// goes. The lock is the kernel's (flock), so that a crash leaves none behind.
class RunFiles {
 public:
  // FAILED_PRECONDITION, with the pid, if another server uses the folder.
  static absl::StatusOr<std::unique_ptr<RunFiles>> Open(const std::string& data_dir);
  ~RunFiles();

  // {"inference": "127.0.0.1:8001", "admin": …, "metrics": …, "pid": 1}; a
  // reader sees all of it or nothing.
  absl::Status WriteAddresses(const Addresses& addresses);
  // Nobody listens there any more.
  void RemoveAddresses();

 private:
  RunFiles(std::string dir, int lock) : dir_(std::move(dir)), lock_(lock) {}

  const std::string dir_;
  const int lock_;
};

}  // namespace belfry

#endif  // BELFRY_SERVER_MAIN_RUN_FILES_H_
