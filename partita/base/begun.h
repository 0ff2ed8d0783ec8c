// Work begun on a thread of its own, where the machine gives one.
#pragma once
#include <future>
#include <system_error>

namespace partita {

// What `go` returns, computed by a thread of its own from now on; where the machine gives none, by whoever asks for it.
template <typename Go>
auto begun(Go go) {
  try {
    return std::async(std::launch::async, go);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, go);
  }
}

}  // namespace partita
