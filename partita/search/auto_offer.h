// What a search offers to `auto`. Its entry says it (partita/search/entry.h); partita/search/all/auto.cc lists the
// stages of `auto` in their order, and names no search.
//
// Example: a rule with initial plans for every value of its option "stage", which it makes in microseconds an op.
//
//   .offers = {.initial = {.work = rule_work, .every = {"stage"}}}
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partita/search/search.h"

namespace partita {

// Initial plans, which are compared, and the best of them refined.
struct InitialPlans {
  double (*work)(const Problem&) = nullptr;  // estimated seconds of one; null: there are none
  std::vector<std::string> every = {};       // options of which every value is tried; "N": every divisor of the devices
  bool (*applies)(const Problem&, const Budget&) = nullptr;  // whether they are asked for on this problem; null: always
  // For rules: options of which every value is tried beside those of `every` when steps are compared
  // (SearchResult::fastest_rule); null: none.
  std::vector<std::string> (*further)(const Problem&) = nullptr;
};

// A plan for Objective::kTime, of a search that is long enough to have a part of the time.
struct TimeShare {
  double of_time = 0;  // of the time that is left; 0: none is offered. Larger shares come first
  bool (*applies)(const Problem&) = nullptr;
  // The plans of any search for which SearchResult::lower_bound_step_ns of this one holds; null: none.
  bool (*bounds)(const Plan&) = nullptr;
};

// The joint problem of all operations, solved for a plan that fits. Its lower bound and proof become those of `auto`,
// and Budget::steps are its steps.
struct JointProblemOffer {
  bool is_offered = false;
  double bytes_work = 0;  // about how many seconds the plan of fewest bytes takes, an initial plan for Objective::kTime
};

// A plan made cheaper.
struct Refinement {
  std::optional<Plan> plan;  // none: nothing cheaper that fits was found, or the plan cannot be refined
  int64_t cost = 0;          // of the plan (cost_of)
  int neighbourhoods = 0;    // number of neighbourhoods solved
  int64_t entries = 0;       // in their networks' tables, together
};
struct ToRefine {
  const Problem& problem;
  const Plan& plan;
  int64_t cost = 0;  // of the plan (cost_of)
  const std::vector<Plan>& others;
  Watch watch = {};
  std::function<void(const Refinement&)> tell = nullptr;  // hears of each neighbourhood
};
struct Refiner {
  bool (*applies)(const Plan&, const Cluster&) = nullptr;
  Refinement (*refine)(const ToRefine&, Rng&) = nullptr;  // null: none is offered
};

struct AutoOffer {
  // Problems that are this search's alone: `auto` returns its result. If several take a problem over, the first of the
  // list has it.
  bool (*takes_over)(const Problem&) = nullptr;
  bool is_fallback = false;  // its plan takes no time; kept for a budget that ends before there is any other
  InitialPlans initial = {};
  TimeShare share = {};
  JointProblemOffer joint = {};
  Refiner refiner = {};
  std::string about = {};  // said when the joint problem or a share of time begins: "NAME, the joint problem"
  // For Objective::kTime: steps that it takes if neither its steps nor a time are given.
  std::optional<int64_t> steps_in_time = {};
};

}  // namespace partita
