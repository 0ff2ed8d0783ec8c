// Runs the program in a line of the shell.
#include "tests/e2e/shell.h"

#include <sys/wait.h>

#include <cstdlib>

namespace partita {

Outcome shell(std::string line) {
  const std::string out = scratch("shell.out"), err = scratch("shell.err");
  for (size_t at; (at = line.find("PARTITA")) != std::string::npos;)
    line.replace(at, 7, std::string(PARTITA_BINARY_DIR) + "/partita");
  const int status = std::system(fmt::format("{{ {}\n}} >{} 2>{} </dev/null", line, out, err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(out), contents(err)};
}

}  // namespace partita
