// Runs the kernel of expert_place: the place of each choice at its expert.
#include <algorithm>
#include <unordered_map>

#include "partita/kernel_plan/registered.h"
#include "partita/kernels/tensors.h"

namespace partita {
namespace {

// Elements [g, t, k] of a shard.
struct Cube {
  int64_t* first;
  const TensorShard& shard;

  explicit Cube(const ShardMemory& held) : first(reinterpret_cast<int64_t*>(held.data)), shard(held.shard) {}
  int64_t& at(int64_t g, int64_t t, int64_t k) const {
    const Box& box = shard.box;
    return first[(g - box[0].lo) * shard.strides[0] + (t - box[1].lo) * shard.strides[1] +
                 (k - box[2].lo) * shard.strides[2]];
  }
};

bool is_in(const Interval& range, int64_t i) { return range.lo <= i && i < range.hi; }

}  // namespace

// Passes once over a group's choices in the order of their places, counting them by expert: linear, while the formula
// compares all pairs.
void ExpertPlace::run(const KernelMemory& given) const {
  if (g.empty() || t.empty() || k.empty()) return;
  const Cube choices(given.held[ix]), places(given.held[result]);
  std::unordered_map<int64_t, int64_t> before, same;  // by expert: of earlier ranks, of this rank and earlier tokens
  for (int64_t group = g.lo; group < g.hi; ++group) {
    before.clear();
    for (int64_t rank = std::min(k.lo, l.lo); rank < std::max(k.hi, l.hi); ++rank) {
      if (!is_in(k, rank) && !is_in(l, rank)) continue;
      same.clear();
      for (int64_t token = std::min(t.lo, u.lo); token < std::max(t.hi, u.hi); ++token) {
        const bool wanted = is_in(k, rank) && is_in(t, token), counted = is_in(u, token);
        if (!wanted && !counted) continue;
        const int64_t expert = choices.at(group, token, rank);
        if (wanted) places.at(group, token, rank) = before[expert] + same[expert];
        if (counted) ++same[expert];
      }
      if (is_in(l, rank))
        for (const auto& [expert, count] : same) before[expert] += count;
    }
  }
}

}  // namespace partita
