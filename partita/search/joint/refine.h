// Improves plans for joint searches: the strategies of all operations change together on one mesh axis, with the other
// axes unchanged.
//
// Worked example: a data parallel plan on mesh [4], every op split along i. refined() puts it on [2, 2] with i on both
// axes. refine() then lets all ops change on axis 0 together, j or k in place of i if that moves fewer bytes. Next
// comes axis 1, and again until neither brings anything.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "partita/search/auto_offer.h"
#include "partita/search/joint/joint.h"
#include "partita/search/search.h"
#include "partita/solver/solver.h"

namespace partita {

constexpr int kTightenings = 12;  // how often a plan that does not fit lowers the network's limit

// The solution of a joint problem whose plan fits. The network's uses leave copies and scratch out, so the memory
// planner may find a deficit. The limit is then lowered by that, or so far that the solution breaks it, and the network
// is solved again.
struct Fitting {
  std::optional<Plan> plan;
  solver::Result first;                              // with the limit as it was: its bound holds
  solver::Status status = solver::Status::kUnknown;  // of the last network
  int tightenings = 0;
  int64_t deficit_bytes = 0;  // of the last plan that did not fit
};
// Reports the first bound throughout. A solution that costs `below` or more, in the network's costs, makes no plan. The
// check for fit may go on after the end of the options' time; it throws if `watch` ends.
Fitting solve_fitting(const Problem& problem, const JointProblem& joint, solver::Options options,
                      std::optional<int64_t> below = std::nullopt, int most_tightenings = kTightenings,
                      const Watch& watch = {});

// A plan whose ops are all on one mesh of all devices, on the mesh that has an axis for every prime factor of an
// extent. A split over an axis of 4 becomes one over two of 2.
struct Refined {
  Mesh mesh;
  std::vector<std::vector<tdl::AxisStrategy>> strategies;  // by OpId, one a mesh axis
};
// Empty for plans on several meshes, or on some of the devices.
std::optional<Refined> refined(const Plan& plan, const Cluster& cluster);

// Refines a plan to a cheaper one that fits. On each mesh axis in turn, next on each two of three or four, all ops may
// change at once, until none brings a gain. Every op may take a strategy that divides its work there, or that the plan
// or one of `others` on the same refined mesh has. No op becomes replicated along another axis: that moves fewer bytes,
// for more work. If the objective is time that work counts, and it may. `solving` is for one neighbourhood, but its
// deadline and stop are for all. Pins hold if they do in the plan. `cost` is the plan's, by cost_of(). `tell` hears of
// each neighbourhood. Once their tables have had `most_entries`, the search ends.
Refinement refine(const Problem& problem, const Plan& plan, int64_t cost, const std::vector<Plan>& others,
                  const solver::Options& solving, const std::function<void(const Refinement&)>& tell = nullptr,
                  int64_t most_entries = std::numeric_limits<int64_t>::max());

// The same as an offer to `auto`, with its numbers.
Refiner axis_refiner();

}  // namespace partita
