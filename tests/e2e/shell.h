// Runs the program in a line of the shell, for tests that need redirections, closed descriptors or limits.
#pragma once
#include "tests/e2e/program.h"

namespace partita {

// Runs a line of sh, in which PARTITA is the program. Catches standard output and standard error if the line does not
// redirect them.
Outcome shell(std::string line);

}  // namespace partita
