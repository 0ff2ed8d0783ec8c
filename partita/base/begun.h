// Work begun on a thread of its own, where the machine gives one.
#pragma once
#include <future>
#include <system_error>

#include "partita/base/machine_memory.h"

namespace partita {

// What `go` returns, computed by a thread of its own from now on; where the machine gives none, by whoever asks for it.
template <typename Go>
auto begun(Go go) {
  try {
    return std::async(std::launch::async, [go, may = may_run_out()]() mutable {
      const MayRunOut same(may);
      return go();
    });
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, go);
  }
}

}  // namespace partita
