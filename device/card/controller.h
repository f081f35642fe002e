// Answers belfryd's commands: load, warm, unload, memory, shutdown.
#ifndef BELFRY_DEVICE_CARD_CONTROLLER_H_
#define BELFRY_DEVICE_CARD_CONTROLLER_H_

#include <string>
#include <string_view>

#include "device/card/driver_library.h"
#include "device/card/executable_table.h"
#include "device/card/executor.h"
#include "device/channel/control.h"

namespace belfry::card {

// Runs on one thread (the control thread), at a low priority, so that loading a
// model takes what the execution thread leaves. Owns none of its arguments; all
// must outlive it.
class Controller {
 public:
  Controller(channel::ControlSocket* socket, OpenCard* card, ExecutableTable* table,
             Executor* executor)
      : socket_(socket), card_(card), table_(table), executor_(executor) {}

  // Returns after a shutdown command, when all that was submitted is done, or
  // when belfryd is gone.
  void Run();

 private:
  channel::Reply Handle(const channel::Request& request);
  absl::Status Load(const channel::Request& request, uint64_t* resident_bytes);
  absl::Status Warm(const channel::Request& request);
  absl::Status Unload(const channel::Request& request);

  channel::ControlSocket* const socket_;
  OpenCard* const card_;
  ExecutableTable* const table_;
  Executor* const executor_;
};

}  // namespace belfry::card

#endif  // BELFRY_DEVICE_CARD_CONTROLLER_H_
