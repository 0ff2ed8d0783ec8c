// Computes bounds by sums, longest paths and windows.
#include "partita/device_placement/bounds.h"

#include <map>

#include "partita/device_placement/units.h"
#include "partita/device_placement/windows.h"

namespace partita {

namespace {

// The time to cross if no device runs both; otherwise 0.
int64_t sure_crossing_ns(const PlacementProblem& p, const PlacedOp& from, const PlacedOp& to,
                         const PlacedValue& value) {
  return value.moves() && !share_a_device(from, to) ? least_crossing_ns(p, from, to, value.bytes) : 0;
}

// The smallest limit that leaves a choice, found by bisection. Each limit that leaves none proves that steps are
// longer.
int64_t cut_ns(PlacementWindows& windows, const PlacementProblem& p, const PlacementState& start, int64_t least) {
  constexpr int kHalves = 12, kRounds = 3;
  constexpr size_t kSmall = 300;  // operations: up to these, pairs are looked at too
  const auto possible = [&](int64_t limit) {
    PlacementState state = start;
    return windows.narrow(state, limit, kRounds, p.ops.size() <= kSmall);
  };
  int64_t below = least - 1, above = least;
  for (int64_t step = std::max<int64_t>(1, least / 64); !possible(above) && above < 4 * least; step *= 2) {
    below = above;
    above += step;
  }
  for (int i = 0; i < kHalves && above - below > 1; ++i) {
    const int64_t middle = below + (above - below) / 2;
    (possible(middle) ? above : below) = middle;
  }
  return below + 1;
}

// Fixes one image: every schedule has an image here with equal devices exchanged.
PlacementState one_image(const PlacementProblem& p, const PlacementWindows& windows) {
  PlacementState state = windows.start();
  std::vector<PlacementUnit> units = placement_units(p);
  break_device_symmetry(p, units);
  for (const PlacementUnit& unit : units) {
    uint64_t devices = 0;
    for (int d : unit.devices) devices |= uint64_t{1} << d;
    for (int o : unit.ops) state.runs[static_cast<size_t>(o)] &= devices;
  }
  return state;
}

void add_windows(const PlacementProblem& p, PlacementBounds& bounds) {
  bounds.heads_ns = bounds.path_ns, bounds.work_ns = bounds.load_ns, bounds.cut_ns = bounds.ns();
  if (p.ops.empty() || p.devices.size() > PlacementWindows::kMostDevices) return;
  PlacementWindows windows(p);
  const PlacementState start = one_image(p, windows);
  if (!windows.find(start, true)) return;
  bounds.heads_ns = std::max(bounds.path_ns, windows.path_ns(start));
  bounds.work_ns = std::max({bounds.load_ns, windows.work_ns(start), windows.begun_and_ended_ns(start)});
  bounds.links_ns = windows.crossings_ns(start);
  bounds.cut_ns = cut_ns(windows, p, start, bounds.ns());
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
      start = std::max(start, end[producer] + sure_crossing_ns(p, p.ops[producer], op, value));
    }
    end[o] = start + least_ns(op);
    bounds.path_ns = std::max(bounds.path_ns, end[o]);
  }
  for (const auto& [runs, ns] : work) {
    const auto devices = static_cast<int64_t>(std::count(runs.begin(), runs.end(), true));
    bounds.load_ns = std::max(bounds.load_ns, (ns + devices - 1) / devices);
  }
  add_windows(p, bounds);
  return bounds;
}

}  // namespace partita
