// Where the parts of an installation lie, seen from the running program.
#ifndef BELFRY_SERVER_MAIN_INSTALL_PATHS_H_
#define BELFRY_SERVER_MAIN_INSTALL_PATHS_H_

#include <string>

namespace belfry {

// The folder of the running program; "." where the system does not tell.
std::string ProgramDir();

// belfry-card beside the program.
std::string DefaultCardBinary();

// The folder that holds the package belfry_compiler: share/belfry/compiler of
// the installation, or compiler/ of a source tree whose build folder holds the
// program. Empty if there is neither.
std::string DefaultCompilerDir();

}  // namespace belfry

#endif  // BELFRY_SERVER_MAIN_INSTALL_PATHS_H_
