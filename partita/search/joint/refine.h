// Plans made better: the strategies of all operations change together on one mesh axis, the other axes being as they
// are.
//
// Worked example: a data parallel plan on mesh [4], every op split along i. refined() puts it on [2, 2] with i on both
// axes. refine() then lets all ops change on axis 0 together, j or k in place of i where that moves fewer bytes, next
// on axis 1, and again until neither brings anything.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "partita/search/joint/joint.h"
#include "partita/search/search.h"
#include "partita/solver/solver.h"

namespace partita {

// The plan has what is pinned.
bool keeps(const Pins& pins, const Plan& plan);
// Every device could hold all tensors whole, for every reader and from every device, many times over. Asking the memory
// planner takes a second where there are thousands of operations.
bool holds_any_plan(const Problem& problem);

constexpr int kTightenings = 12;  // how often a plan that does not fit lowers the network's limit

// The solution of a joint problem whose plan fits. The network's uses leave copies and scratch out, so the memory
// planner may find that a plan needs more than there is. The limit is then lowered by that, or so far that the solution
// breaks it, and the network is solved again.
struct Fitting {
  std::optional<Plan> plan;
  solver::Result first;                              // with the limit as it was: its bound holds
  solver::Status status = solver::Status::kUnknown;  // of the last
  int tightenings = 0;
  int64_t missing_bytes = 0;  // of the last plan that did not fit
};
// Progress tells the first bound throughout. No plan comes of a solution that costs `below` or more, in the network's
// costs. Whether a plan fits is found out after the end of the options' time too; it throws where `watch` ends.
Fitting solve_fitting(const Problem& problem, const JointProblem& joint, solver::Options options,
                      std::optional<int64_t> below = std::nullopt, int most_tightenings = kTightenings,
                      const Watch& watch = {});

// A plan whose ops are all on one mesh of all devices, on the mesh that has an axis for every prime factor of an
// extent: what is split over an axis of 4 is split over two of 2.
struct Refined {
  Mesh mesh;
  std::vector<std::vector<tdl::AxisStrategy>> strategies;  // by OpId, one a mesh axis
};
// Empty for plans on several meshes, or on a part of the devices.
std::optional<Refined> refined(const Plan& plan, const Cluster& cluster);

struct Refinement {
  std::optional<Plan> plan;  // none: nothing cheaper that fits was found, or the plan cannot be refined
  int64_t cost = 0;          // of the plan (cost_of)
  int neighbourhoods = 0;    // that were looked at
  int64_t entries = 0;       // of their networks' tables, together
};
// From a plan to a cheaper one that fits. On each mesh axis in turn, next on each two of three or four, all ops may
// change at once, until none brings anything. Every op may do what divides its work there, or what the plan and those
// of `others` on the same refined mesh have it do. No op is replicated along an axis where it was not: that moves fewer
// bytes, for more work. In time that work counts, and it may be. `solving` is of one neighbourhood, but its deadline
// and stop are of all. Pins hold if they do in the plan. `cost` is the plan's, by cost_of(). `tell` hears of each
// neighbourhood. Once their tables have had `most_entries`, no other is looked at.
Refinement refine(const Problem& problem, const Plan& plan, int64_t cost, const std::vector<Plan>& others,
                  const solver::Options& solving, const std::function<void(const Refinement&)>& tell = nullptr,
                  int64_t most_entries = std::numeric_limits<int64_t>::max());

}  // namespace partita
