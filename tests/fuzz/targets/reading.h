// Defines the exceptions that a reader may throw, for all fuzz targets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "partita/base/error.h"

namespace partita {

inline std::string_view text_of(const uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Calls `read` on one input. A reader may refuse it as bad input; any other exception ends the program, which libFuzzer
// reports with the input.
template <typename Read>
int read_or_refuse(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
  }
  return 0;
}

}  // namespace partita
