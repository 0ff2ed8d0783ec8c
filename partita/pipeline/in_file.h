// Adds the name of a file to messages about it.
#pragma once
#include <string>

#include "partita/base/error.h"

namespace partita {

// Returns the result of `read` on the file at `path`. Bad input inside `read` names the file. `Kind`: of errors that
// are about the file; others are thrown as they are.
template <typename Kind = Error, typename Read>
auto in_file(const std::string& path, Read read) {
  try {
    return read();
  } catch (const Kind& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    fail("{}: {}", path, error.what());
  }
}

}  // namespace partita
