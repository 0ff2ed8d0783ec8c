// Names the kinds of steps, and tells how each position of a local step or a fetch assembles its box.
#include "partita/sharding/step.h"

#include <iterator>
#include <numeric>

#include "partita/sharding/members.h"

namespace partita {

namespace {

// Compares boxes, as a count of elements cannot tell: as many elements may be covered twice as are not covered.
bool any_overlap(const std::vector<const Piece*>& pieces) {
  for (size_t i = 0; i < pieces.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (boxing::common_elements(pieces[i]->box, pieces[j]->box) > 0) return true;
  return false;
}

}  // namespace

std::string_view name_of(StepKind kind) {
  constexpr std::string_view names[] = {"local", "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "fetch"};
  static_assert(std::size(names) == static_cast<size_t>(StepKind::kFetch) + 1);
  return names[static_cast<size_t>(kind)];
}

std::vector<Target> targets_of(const Step& step) {
  std::vector<int> all(step.to.boxes.size());
  std::iota(all.begin(), all.end(), 0);
  return targets_of(step, all);
}

std::vector<Target> targets_of(const Step& step, const std::vector<int>& positions) {
  std::vector<Target> targets;
  targets.reserve(positions.size());
  auto piece = step.pieces.begin();
  for (int p : positions) {
    Target& t = targets.emplace_back();
    const Box box = step.to.boxes[static_cast<size_t>(p)];
    int64_t covered = 0;
    for (; piece != step.pieces.end() && piece->target <= p; ++piece) {
      if (piece->target < p || is_empty(piece->box)) continue;
      t.pieces.push_back(&*piece);
      covered += volume(piece->box);
    }
    t.view = t.pieces.size() == 1 && step.from.mesh.devices[t.pieces[0]->source] == step.to.mesh.devices[p] &&
             t.pieces[0]->box == box;
    t.combine = covered != volume(box) || t.pieces.empty() || (step.from.is_partial() && any_overlap(t.pieces));
  }
  return targets;
}

}  // namespace partita
