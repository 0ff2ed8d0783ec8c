// The program in a line of the shell, for what processes alone cannot say: redirections, closed descriptors, limits.
#pragma once
#include "tests/e2e/program.h"

namespace partita {

// A line of sh, in which PARTITA is the program. Standard output and standard error are caught if the line leaves them
// alone.
Outcome shell(std::string line);

}  // namespace partita
