// Reports the end of a watch, in words and as an error.
#include "partita/base/watch.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {

std::optional<double> Watch::left() const {
  if (!deadline) return std::nullopt;
  return std::max(0.0, std::chrono::duration<double>(*deadline - Clock::now()).count());
}

Watch Watch::share(double of_time) const {
  Watch part = *this;
  if (deadline)
    part.deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(of_time * *left()));
  return part;
}

void Watch::give_up(const char* where) const {
  if (stopped()) throw Error(ExitCode::kInterrupted, fmt::format("interrupted {}", where));
  throw Error(ExitCode::kTimeLimit, fmt::format("the time limit passed {}", where));
}

}  // namespace partita
