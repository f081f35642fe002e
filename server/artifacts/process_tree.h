// Memory of a process and all its descendants.
#ifndef BELFRY_SERVER_ARTIFACTS_PROCESS_TREE_H_
#define BELFRY_SERVER_ARTIFACTS_PROCESS_TREE_H_

#include <sys/types.h>

#include <cstdint>

namespace belfry::artifacts {

// Resident memory that is not backed by files, of the descendants of 'root' and
// not of itself, in bytes. Processes that end meanwhile count nothing. At most
// 4096 processes are looked at.
uint64_t TreeAnonymousBytes(pid_t root);

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_PROCESS_TREE_H_
