// What people read about a version.
#ifndef BELFRY_SERVER_CLI_VERSION_TEXT_H_
#define BELFRY_SERVER_CLI_VERSION_TEXT_H_

#include <string>

#include "proto/registry.pb.h"

namespace belfry::cli {

// "READY", "COMPILING"; "?" for a state that this client does not know.
std::string StateName(v1::VersionState state);

// "inductor (cpu), 12 s"; empty when there is nothing to tell.
std::string ProgressText(const v1::Progress& progress);

// One version in full, several lines.
std::string DetailText(const v1::VersionDetail& detail);

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_VERSION_TEXT_H_
