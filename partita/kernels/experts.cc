#include "partita/kernels/experts.h"

#include <algorithm>
#include <unordered_map>

namespace partita {
namespace {

// Elements [g, t, k] of a part.
struct Cube {
  int64_t* first;
  const Part& part;

  explicit Cube(const Held& held) : first(reinterpret_cast<int64_t*>(held.data)), part(held.part) {}
  int64_t& at(int64_t g, int64_t t, int64_t k) const {
    const Box& box = part.box;
    return first[(g - box[0].lo) * part.strides[0] + (t - box[1].lo) * part.strides[1] +
                 (k - box[2].lo) * part.strides[2]];
  }
};

bool is_in(const Interval& range, int64_t i) { return range.lo <= i && i < range.hi; }

}  // namespace

// One pass over a group's choices in the order in which they are given places, counting them by expert: linear, where
// the formula compares all pairs.
void run_expert_place(const PlacePlan& plan, const std::vector<Held>& held) {
  if (plan.g.empty() || plan.t.empty() || plan.k.empty()) return;
  const Cube ix(held[plan.ix]), place(held[plan.result]);
  std::unordered_map<int64_t, int64_t> before, same;  // by expert: of earlier k, of this k and earlier t
  for (int64_t g = plan.g.lo; g < plan.g.hi; ++g) {
    before.clear();
    for (int64_t k = std::min(plan.k.lo, plan.l.lo); k < std::max(plan.k.hi, plan.l.hi); ++k) {
      if (!is_in(plan.k, k) && !is_in(plan.l, k)) continue;
      same.clear();
      for (int64_t t = std::min(plan.t.lo, plan.u.lo); t < std::max(plan.t.hi, plan.u.hi); ++t) {
        const bool wanted = is_in(plan.k, k) && is_in(plan.t, t), counted = is_in(plan.u, t);
        if (!wanted && !counted) continue;
        const int64_t expert = ix.at(g, t, k);
        if (wanted) place.at(g, t, k) = before[expert] + same[expert];
        if (counted) ++same[expert];
      }
      if (is_in(plan.l, k))
        for (const auto& [expert, count] : same) before[expert] += count;
    }
  }
}

}  // namespace partita
