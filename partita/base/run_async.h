// Starts work on its own thread, if the machine gives one.
#pragma once
#include <future>
#include <system_error>

#include "partita/base/machine_memory.h"

namespace partita {

// Returns a future of `go`'s result. A new thread computes it from now on; if the machine gives none, whoever asks for
// it does.
template <typename Go>
auto run_async(Go go) {
  try {
    return std::async(std::launch::async, [go, may = may_run_out_of_memory()]() mutable {
      const OutOfMemoryScope same(may);
      return go();
    });
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, go);
  }
}

}  // namespace partita
