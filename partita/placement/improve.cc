// Late acceptance over placements and orders.
#include "partita/placement/improve.h"

#include <algorithm>
#include <optional>

#include "partita/placement/list_decoder.h"
#include "partita/placement/moves.h"

namespace partita {

PlacedSchedule improved(const PlacementProblem& problem, const PlacedSchedule& start, const ImproveOptions& options,
                        Rng& rng, const Watch& watch) {
  if (problem.ops.empty()) return start;
  Moves moves(problem, start);
  ListDecoder decoder(problem, true);
  PlacedSchedule best = start;
  int64_t current = *decoder.decode(moves.device(), moves.order());
  if (current < best.end) best = decoder.schedule();
  std::vector<int64_t> late(static_cast<size_t>(options.late), current);
  for (int64_t i = 0; i < options.changes && best.end > options.enough_ns && !watch.ended(); ++i) {
    if (!moves.change(rng)) continue;
    int64_t& before = late[static_cast<size_t>(i) % late.size()];
    const int64_t limit = std::max(current, before);
    std::optional<int64_t> end;
    if (moves.most_work_ns() <= limit) end = decoder.decode(moves.device(), moves.order(), limit);
    if (end) {
      moves.keep(*end < current);
      current = *end;
      if (current < best.end) best = decoder.schedule();
    } else {
      moves.take_back();
    }
    before = std::min(before, current);
  }
  return best;
}

}  // namespace partita
