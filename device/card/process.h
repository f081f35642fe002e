// How belfry-card behaves as a process: signals, cores, priority, and that it
// does not outlive belfryd.
#ifndef BELFRY_DEVICE_CARD_PROCESS_H_
#define BELFRY_DEVICE_CARD_PROCESS_H_

#include <vector>

#include "absl/status/status.h"

namespace belfry::card {

// Signals that a terminal or an init system sends to the whole group are
// belfryd's to handle: it drains, then tells its cards. SIGKILL when the parent
// thread that started us dies.
void SetUpProcess();

// Before any thread is started: all inherit it.
absl::Status RunOnCores(const std::vector<int>& cores);

// The calling thread, and those that it starts, give way to the others from
// now on.
void GiveWay();

// Starts a thread that ends the process at once when the other end of 'fd' is
// closed, whatever the other threads do.
void ExitWhenClosed(int fd);

// Ends without running the destructors of static objects: other threads may
// still use them.
[[noreturn]] void ExitNow(int code);

}  // namespace belfry::card

#endif  // BELFRY_DEVICE_CARD_PROCESS_H_
