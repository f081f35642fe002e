// The verbs, one file each.
#ifndef BELFRY_SERVER_CLI_VERBS_H_
#define BELFRY_SERVER_CLI_VERBS_H_

#include <memory>
#include <vector>

#include "server/cli/verb.h"

namespace belfry::cli {

std::unique_ptr<Verb> MakeBench();
std::unique_ptr<Verb> MakeCards();
std::unique_ptr<Verb> MakeCompile();
std::unique_ptr<Verb> MakeDrain();
std::unique_ptr<Verb> MakeHealth();
std::unique_ptr<Verb> MakeInfer();
std::unique_ptr<Verb> MakeLoad();
std::unique_ptr<Verb> MakeMetadata();
std::unique_ptr<Verb> MakeModels();
std::unique_ptr<Verb> MakeShow();
std::unique_ptr<Verb> MakeUnload();

// All of them, in the order of --help.
std::vector<std::unique_ptr<Verb>> AllVerbs();

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_VERBS_H_
