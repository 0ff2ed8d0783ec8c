// Finds the device and place in order of each of a problem's operations in a plan.
#include "partita/search/device_placement/placed_plan.h"

#include <algorithm>
#include <utility>

#include "partita/base/error.h"

namespace partita {

bool runs_ops_whole(const Plan& plan) {
  const auto whole = [](const OpChoice& c) { return c.mesh.devices.size() == 1; };
  return !plan.ops.empty() && std::all_of(plan.ops.begin(), plan.ops.end(), whole);
}

bool places_whole_ops(const Plan& plan) {
  return runs_ops_whole(plan) && std::any_of(plan.ops.begin(), plan.ops.end(), [&](const OpChoice& c) {
           return c.mesh.devices != plan.ops[0].mesh.devices;
         });
}

namespace {

// Operations run where the plan's meshes say, and starts of parameters where these are kept. The others (loads,
// outputs) are on the one device that they can be on.
std::vector<int> devices_of(const PlacedGraph& placed, const Plan& plan) {
  const PlacementProblem& p = placed.problem;
  std::vector<int> device(p.ops.size(), -1);
  for (size_t t = 0; t < placed.start.size(); ++t)
    if (const auto kept = plan.kept.find(TensorId(t)); placed.start[t] >= 0 && kept != plan.kept.end())
      device[static_cast<size_t>(placed.start[t])] = kept->second.mesh.devices[0].value;
  for (size_t o = 0; o < p.ops.size(); ++o) {
    if (placed.op[o].valid()) device[o] = plan.ops[placed.op[o].index()].mesh.devices[0].value;
    for (size_t d = 0; device[o] < 0 && d < p.ops[o].ns.size(); ++d)
      if (p.ops[o].ns[d] > 0) device[o] = static_cast<int>(d);
  }
  return device;
}

std::vector<int> order_of(const PlacedGraph& placed, const Plan& plan) {
  const PlacementProblem& p = placed.problem;
  std::vector<size_t> place(placed.number.size());
  for (size_t i = 0; i < place.size(); ++i) place[plan.order.empty() ? i : plan.order[i].index()] = i;
  std::vector<std::pair<size_t, int>> key(p.ops.size());  // by operation
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const size_t last = place.size() + 1;
    key[o] = {placed.op[o].valid()     ? place[placed.op[o].index()] + 1
              : p.ops[o].reads.empty() ? 0
                                       : last,
              static_cast<int>(o)};
  }
  std::sort(key.begin(), key.end());
  std::vector<int> order;
  for (const auto& [at, o] : key) order.push_back(o);
  return order;
}

}  // namespace

std::optional<PlacedPlan> placed_plan(const PlacedGraph& placed, const Plan& plan, std::string& why) {
  ensure(runs_ops_whole(plan), "a plan that divides operations is no placement of them");
  PlacedPlan found{devices_of(placed, plan), order_of(placed, plan)};
  const PlacementProblem& p = placed.problem;
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const auto d = static_cast<size_t>(found.device[o]);
    if (p.ops[o].ns[d] > 0) continue;
    why = fmt::format("'{}' cannot run on {}", p.ops[o].name, p.devices[d].name);
    return std::nullopt;
  }
  return found;
}

}  // namespace partita
