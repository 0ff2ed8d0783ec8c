// Defines the error of a pin that cannot be kept, so that a caller who knows the file of pins can name it.
#pragma once
#include <string>
#include <utility>

#include "partita/base/error.h"

namespace partita {

// Bad input (exit code 3). The message begins with "pins: " and names the op or tensor that is pinned.
class PinError : public Error {
 public:
  explicit PinError(const std::string& message) : Error(ExitCode::kBadInput, "pins: " + message) {}
};

// fail_pin("op '{}' is pinned to two stages", name)
template <typename... Args>
[[noreturn]] void fail_pin(fmt::format_string<Args...> format, Args&&... args) {
  throw PinError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace partita
