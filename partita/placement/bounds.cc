// Sums and longest paths.
#include "partita/placement/bounds.h"

#include <map>

namespace partita {

namespace {

int64_t least_ns(const PlacedOp& op) {
  int64_t least = INT64_MAX;
  for (int64_t ns : op.ns)
    if (ns > 0) least = std::min(least, ns);
  return least;
}

// Where no device runs both, what one makes for the other crosses.
int64_t crossing_ns(const PlacementProblem& p, const PlacedOp& from, const PlacedOp& to, const PlacedValue& value) {
  if (!value.moves()) return 0;
  int64_t least = INT64_MAX;
  for (size_t a = 0; a < from.ns.size(); ++a)
    for (size_t b = 0; b < to.ns.size(); ++b) {
      if (from.ns[a] <= 0 || to.ns[b] <= 0) continue;
      if (a == b) return 0;
      if (p.ways[a][b].queue >= 0) least = std::min(least, p.transfer_ns(p.ways[a][b], value.bytes));
    }
  return least == INT64_MAX ? 0 : least;
}

}  // namespace

PlacementBounds placement_bounds(const PlacementProblem& p) {
  PlacementBounds bounds;
  std::map<std::vector<bool>, int64_t> work;  // by the devices that an operation runs on
  std::vector<int64_t> end(p.ops.size(), 0);
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const PlacedOp& op = p.ops[o];
    std::vector<bool> runs;
    for (int64_t ns : op.ns) runs.push_back(ns > 0);
    work[runs] += least_ns(op);
    int64_t start = 0;
    for (int v : op.reads) {
      const PlacedValue& value = p.values[static_cast<size_t>(v)];
      const auto producer = static_cast<size_t>(value.producer);
      start = std::max(start, end[producer] + crossing_ns(p, p.ops[producer], op, value));
    }
    end[o] = start + least_ns(op);
    bounds.path_ns = std::max(bounds.path_ns, end[o]);
  }
  for (const auto& [runs, ns] : work) {
    const auto devices = static_cast<int64_t>(std::count(runs.begin(), runs.end(), true));
    bounds.load_ns = std::max(bounds.load_ns, (ns + devices - 1) / devices);
  }
  return bounds;
}

}  // namespace partita
