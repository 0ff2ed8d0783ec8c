// The program in a line of the shell, for what processes alone cannot say: redirections, closed descriptors, limits.
#pragma once
#include <cstdlib>

#include "tests/e2e/program.h"

namespace partita {

// A line of sh, in which PARTITA is the program. Standard output and standard error are caught if the line leaves them
// alone.
inline Outcome shell(std::string line) {
  const std::string out = scratch("shell.out"), err = scratch("shell.err");
  for (size_t at; (at = line.find("PARTITA")) != std::string::npos;)
    line.replace(at, 7, std::string(PARTITA_BINARY_DIR) + "/partita");
  const int status = std::system(fmt::format("{{ {}\n}} >{} 2>{} </dev/null", line, out, err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(out), contents(err)};
}

}  // namespace partita
