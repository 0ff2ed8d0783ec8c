// Compares a predicted step with that of the local task graph.
#include "partita/pipeline/local_time.h"

#include <cmath>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/schedule/orders.h"
#include "partita/sim/simulate.h"

namespace partita {

std::string local_time_note(const Planned& p) {
  constexpr double kApart = 0.05;
  if (!p.search.local_ns) return "";
  const auto local_ns = static_cast<double>(*p.search.local_ns), step_ns = static_cast<double>(p.step_time_ns());
  if (std::abs(step_ns / local_ns - 1) <= kApart) return "";
  const std::string what =
      fmt::format("the local task graph, by which it was searched, takes {}: {:.0f}% {}", time_text(local_ns),
                  100 * std::abs(local_ns / step_ns - 1), local_ns < step_ns ? "less" : "more");
  if (!p.is_whole()) return what + "; the step is that of typical devices";
  Orders orders(p.training, *p.resolved, p.cluster, {.share_bytes = false});
  const auto apart_ns =
      static_cast<double>(simulate(orders.with_edges(orders.size() - 1), CostModel(p.cluster)).step_time_ns);
  const auto signed_time = [](double ns) { return fmt::format("{}{}", ns < 0 ? "-" : "", time_text(std::abs(ns))); };
  return fmt::format("{}; {} is waiting for memory that others use, {} the order in which devices take what is ready",
                     what, signed_time(step_ns - apart_ns), signed_time(apart_ns - local_ns));
}

}  // namespace partita
