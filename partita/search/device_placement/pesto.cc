// `pesto` (Hafeez et al. 2021): coarsens the step by batches of merges, places and orders its vertices by an integer
// program, and their operations as the paper does, or by longest ways.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/device_placement/coarsen.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/program.h"
#include "partita/device_placement/solve_program.h"
#include "partita/search/device_placement/placements.h"
#include "partita/search/entry.h"

namespace partita {

namespace {

constexpr size_t kVertices = 200;  // section 3.3
constexpr int kTries = 5;          // when the planner refuses a plan that footprints allowed

struct Solved {
  Coarse coarse;
  ProgramResult program;
};

CoarsenOptions coarsening_of(const Problem& problem) {
  CoarsenOptions coarsening;
  coarsening.join_values = true;
  coarsening.edges_alone = problem.options.at("coarsen") == "paper";
  coarsening.keep_parallel = problem.options.at("coarsen") == "parallel";
  if (problem.options.at("caps") == "no") coarsening.time_share = coarsening.memory_share = 1;
  return coarsening;
}

// The program gets so many seconds at most.
Solved solve(const Problem& problem, const PlacementProblem& fine, double seconds, const Watch& watch) {
  Solved solved;
  solved.coarse = coarsen(fine, kVertices, coarsening_of(problem));
  PlacementProblem& p = solved.coarse.problem;
  if (problem.options.at("balance") == "yes") p = with_balanced_memory(p);
  std::string why;
  ProgramOptions options;
  options.congestion = problem.options.at("congestion") == "yes";
  const auto start = best_list_schedule(p, {}, why, options.congestion);
  if (!start)
    throw Error(
        ExitCode::kInfeasible,
        fmt::format("pesto: {}{}", why, problem.options.at("caps") == "no" ? "; caps=yes keeps vertices small" : ""));
  if (problem.tell) {
    options.tell = [&](const std::string& what) { problem.tell("pesto: " + what); };
    problem.tell(fmt::format("pesto: {} operations as {} vertices and {} values; {} by list scheduling",
                             fine.ops.size(), p.ops.size(), p.values.size(), ms(start->end)));
  }
  options.seconds = seconds;
  solved.program = solve_program(p, *start, options, watch);
  return solved;
}

// The schedule of the operations: vertices in the program's order and operations in the framework's (own). Or the
// placement alone, in the framework's order (section 3.3: if a vertex has hundreds of operations) or longest ways first
// (critical).
PlacedSchedule expanded(const PlacementProblem& fine, const Solved& solved, const std::string& order) {
  const PlacedSchedule& coarse = solved.program.schedule;
  const std::vector<int> device = expanded_placement(solved.coarse, coarse.device);
  if (order == "own") return list_schedule(fine, device, expanded_order(solved.coarse, order_of(coarse)), false);
  return first_come(fine, device, order == "critical" ? critical_ranks(fine, device) : framework_ranks(fine));
}

// Shares of the vertices' time: the largest vertex, and the longest path, without transfers.
struct Shares {
  double largest = 0, path = 0;
};
Shares shares_of(const PlacementProblem& coarse) {
  std::vector<int64_t> end(coarse.ops.size(), 0);
  int64_t all = 0, path = 0, largest = 0;
  for (size_t v = 0; v < coarse.ops.size(); ++v) {
    const int64_t ns = least_ns(coarse.ops[v]);
    for (int value : coarse.ops[v].reads)
      end[v] = std::max(end[v], end[static_cast<size_t>(coarse.values[static_cast<size_t>(value)].producer)]);
    end[v] += ns;
    all += ns;
    path = std::max(path, end[v]);
    largest = std::max(largest, ns);
  }
  return {static_cast<double>(largest) / static_cast<double>(all),
          static_cast<double>(path) / static_cast<double>(all)};
}

void add_coarse_note(const Problem& problem, size_t ops, const PlacementProblem& coarse, SearchResult& result) {
  const std::string& rule = problem.options.at("coarsen");
  const Shares shares = shares_of(coarse);
  const size_t vertices = coarse.ops.size();
  std::string how = fmt::format(
      "coarsened to {} vertices{} by {}, {}", vertices, vertices > kVertices ? ", as few as the rule allows," : "",
      rule == "paper"     ? "edges alone, as the paper prints it"
      : rule == "heights" ? "edges and heights"
                          : "what has room beside the longest path",
      problem.options.at("caps") == "yes" ? "of at most 8% of the time and 12% of the memory" : "without caps");
  if (vertices == ops) how = fmt::format("nothing is merged: there are {} operations", ops);
  result.notes.push_back(fmt::format("{}; the largest takes {:.0f}% of the time, the longest path {:.0f}%", how,
                                     100 * shares.largest, 100 * shares.path));
  result.counters["vertices"] = static_cast<double>(vertices);
  result.counters["largest_vertex"] = shares.largest;
  result.counters["longest_path"] = shares.path;
}

void add_notes(const Problem& problem, const Solved& solved, const PlacedSchedule& schedule, SearchResult& result) {
  const ProgramResult& program = solved.program;
  add_coarse_note(problem, solved.coarse.vertex.size(), solved.coarse.problem, result);
  if (program.rows == 0)
    result.notes.push_back(fmt::format("the time was over before the program was made: {}, the best by list scheduling",
                                       ms(program.objective_ns)));
  else if (!program.solved && !program.proved)
    result.notes.push_back(fmt::format(
        "the program of {}{} rows was not solved in the time: {}, {}{}", program.made ? "" : "more than ", program.rows,
        ms(program.objective_ns), program.only_start ? "the best by list scheduling" : "the best by windows of it",
        program.bound_ns == 0
            ? ""
            : fmt::format("; bound of the coarse problem {}, which is none of the step", ms(program.bound_ns))));
  else
    result.notes.push_back(
        fmt::format("program of {} rows, {} columns, {} of them bits: {}{}; bound of the coarse problem {}{}",
                    program.rows, program.columns, program.bits, ms(program.objective_ns),
                    program.only_start ? ", which is its start: the solver found nothing better" : "",
                    ms(program.bound_ns), program.proved ? ", proved" : ", which is none of the step"));
  result.notes.push_back(fmt::format("the same on all operations: {}", ms(schedule.end)));
  result.counters["rows"] = static_cast<double>(program.rows);
  result.counters["solver_seconds"] = program.seconds;
}

// Lowers the memory for footprints on each device by the deficit, by a hundredth of it at least and a tenth at most.
void take_memory(PlacementProblem& problem, int64_t deficit_bytes) {
  for (PlacedDevice& d : problem.devices)
    d.memory_bytes -= std::clamp(deficit_bytes, d.memory_bytes / 100, d.memory_bytes / 10);
}

// Leaves time for lowering the plan: about as long as the step on one device took, half of the time left at most.
Watch before_the_plan(Watch watch, Watch::Clock::duration lowering) {
  if (watch.deadline) {
    const Watch::Clock::duration left = *watch.deadline - Watch::Clock::now();
    *watch.deadline -= std::max(Watch::Clock::duration(0), std::min(lowering, left / 2));
  }
  return watch;
}

SearchResult search(const Problem& problem, const Budget& budget, Rng&) {
  const Watch watch = budget.watch();
  const CostModel cost(problem.cluster);
  const Watch::Clock::time_point begun = Watch::Clock::now();
  const PlacedGraph placed = placed_graph(problem, cost, watch);
  const Watch of_solver = before_the_plan(watch, Watch::Clock::now() - begun);
  const std::string& order = problem.options.at("order");
  PlacementProblem fine = with_footprints(placed);
  double seconds = std::stod(problem.options.at("seconds"));  // of all tries
  for (int tries = 1;; ++tries) {
    const Solved solved = solve(problem, fine, seconds, of_solver);
    seconds = std::max(0.0, seconds - solved.program.seconds);
    const PlacedSchedule schedule = expanded(placed.problem, solved, order);
    SearchResult result = placed_result(problem, placed, schedule, order, "pesto");
    result.plan->paper_cost = static_cast<double>(solved.program.objective_ns) / 1e3;
    add_notes(problem, solved, schedule, result);
    const int64_t missing = plan_deficit_bytes(problem, result);
    if (missing <= 0) {
      add_bound(bounds_of_plans(placed), problem.cluster, result);
      return result;
    }
    if (tries == kTries) require_fit(missing, "pesto");
    watch.poll("before a placement was found that fits");
    // Footprints sum all bytes of a device's operations; the planner knows their lifetimes.
    take_memory(fine, missing);
    if (problem.tell)
      problem.tell(fmt::format("pesto: {} bytes are missing; again with {} bytes a device", missing,
                               fine.devices[0].memory_bytes));
  }
}

}  // namespace

SearchEntry pesto_search() {
  return {.name = "pesto",
          .source = "Pesto",
          .summary = "whole operations: coarsened to 200 vertices, placed and ordered by an integer program",
          .options = {{"balance", {"no", "yes"}},
                      {"caps", {"yes", "no"}},
                      {"coarsen", {"heights", "paper", "parallel"}},
                      {"congestion", {"yes", "no"}},
                      {"order", {"framework", "critical", "own"}},
                      {"seconds", {"60", "N"}}},
          .search = search,
          .sharing = one_replica,
          .seconds = 60,
          .whole_batch = true,
          .places = true,
          .measure = Objective::kTime};
}

}  // namespace partita
