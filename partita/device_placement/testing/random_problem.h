// Makes random placement problems for tests.
#pragma once
#include <algorithm>
#include <string>

#include "partita/base/rng.h"
#include "partita/device_placement/problem.h"

namespace partita {

struct RandomShape {
  int ops = 6, devices = 2;  // the last is a host if `host`
  bool host = false;
  int most_reads = 3, most_ns = 9;
  int groups = 0;
  bool results = false;  // operations make results that devices hold until their last use; values are parts of them
};

// `least_ops` operations or up to `more` - 1 more, on two to four devices, half of the time with a host, in up to two
// groups.
inline RandomShape drawn_shape(Rng& rng, int least_ops, uint64_t more) {
  return {.ops = least_ops + static_cast<int>(rng.below(more)),
          .devices = 2 + static_cast<int>(rng.below(3)),
          .host = rng.below(2) == 0,
          .groups = static_cast<int>(rng.below(3))};
}

// Up to two results of each operation; some operations need scratch. A value is of a result, or takes nothing.
inline void draw_results(Rng& rng, PlacementProblem& p) {
  for (size_t o = 0; o < p.ops.size(); ++o) {
    p.ops[o].scratch = rng.below(3) == 0 ? static_cast<int64_t>(rng.below(6)) : 0;
    for (uint64_t k = rng.below(3); k > 0; --k) {
      if (p.values[o].moves()) p.values[o].result = static_cast<int>(p.results.size());
      p.results.push_back({static_cast<int64_t>(rng.below(15)), static_cast<int>(o)});
    }
  }
}

// Each operation reads values of some before it. With a host, the first operation of a problem and some others run on
// it alone, the rest not there. Each pair of devices has a queue for each direction.
inline PlacementProblem random_problem(Rng& rng, const RandomShape& shape) {
  PlacementProblem p;
  const int n = shape.devices;
  for (int d = 0; d < n; ++d) p.devices.push_back({"d" + std::to_string(d), int64_t{1} << 40});
  p.routes.assign(static_cast<size_t>(n), std::vector<Route>(static_cast<size_t>(n)));
  for (size_t a = 0; a < p.routes.size(); ++a)
    for (size_t b = 0; b < p.routes.size(); ++b)
      if (a != b) p.routes[a][b] = {p.queues++, static_cast<double>(rng.below(4)), 0.5};
  for (int o = 0; o < shape.ops; ++o) {
    PlacedOp op;
    op.name = "o" + std::to_string(o);
    const bool on_host = shape.host && (o == 0 || rng.below(6) == 0);
    const auto ns = 1 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(shape.most_ns)));
    for (int d = 0; d < n; ++d) op.ns.push_back(!shape.host || (d == n - 1) == on_host ? ns : -1);
    op.bytes = static_cast<int64_t>(rng.below(8));
    if (shape.groups > 0 && !on_host && rng.below(3) == 0)
      op.group = static_cast<int>(rng.below(static_cast<uint64_t>(shape.groups)));
    const auto reads = o == 0 ? 0 : rng.below(static_cast<uint64_t>(shape.most_reads) + 1);
    for (uint64_t i = 0; i < reads; ++i) {
      const auto v = static_cast<size_t>(rng.below(static_cast<uint64_t>(o)));
      if (!p.values[v].readers.empty() && p.values[v].readers.back() == o) continue;
      p.values[v].readers.push_back(o);
      op.reads.push_back(static_cast<int>(v));
    }
    p.ops.push_back(op);
    p.values.push_back({rng.below(8) == 0 ? kOrderAlone : static_cast<int64_t>(rng.below(12)), o, {}});
  }
  if (shape.results) draw_results(rng, p);
  return p;
}

// In half of the cases with memory for about half of it on a device, and in half with routes that are all alike, so
// that devices can be exchanged.
inline void draw_memory_and_ways(Rng& rng, PlacementProblem& p) {
  if (rng.below(2) == 0) {
    int64_t all = 0;
    for (const PlacedOp& op : p.ops) all += op.bytes;
    for (PlacedDevice& d : p.devices) d.memory_bytes = all / 2 + static_cast<int64_t>(rng.below(8));
  }
  if (rng.below(2) == 0)
    for (auto& from : p.routes)
      for (Route& route : from) route.latency_ns = 2;
}

// A random placement that types and groups allow.
inline std::vector<int> random_placement(Rng& rng, const PlacementProblem& p) {
  std::vector<int> device(p.ops.size());
  std::vector<int> of_group;
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const PlacedOp& op = p.ops[o];
    do device[o] = static_cast<int>(rng.below(p.devices.size()));
    while (op.ns[static_cast<size_t>(device[o])] < 0);
    if (op.group < 0) continue;
    of_group.resize(std::max(of_group.size(), static_cast<size_t>(op.group) + 1), -1);
    int& d = of_group[static_cast<size_t>(op.group)];
    if (d < 0) d = device[o];
    device[o] = d;
  }
  return device;
}

}  // namespace partita
