// Messages that name the file.
#pragma once
#include <string>

#include "partita/base/error.h"

namespace partita {

// What `read` makes of the file at `path`. Bad input inside `read` names the file.
template <typename Read>
auto in_file(const std::string& path, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    fail("{}: {}", path, error.what());
  }
}

}  // namespace partita
