// The command line as a whole: finds the verb, reads its flags, runs it.
#ifndef BELFRY_SERVER_CLI_COMMAND_H_
#define BELFRY_SERVER_CLI_COMMAND_H_

#include <string>
#include <vector>

namespace belfry::cli {

// 'args' without the program's name. The exit code.
int RunCommand(const std::vector<std::string>& args);

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_COMMAND_H_
