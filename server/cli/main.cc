// belfry: the command for people and scripts.
#include <signal.h>

#include "server/cli/command.h"

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);  // of a connection; a closed stdout shows as a failed write
  return belfry::cli::RunCommand({argv + 1, argv + argc});
}
