// `exact`: searches all mesh axes at once, as one cost network (partita/solver), and proves a lower bound.
//
// Its plan moves the fewest bytes of all plans of the space. Every op takes one of its strategies on all mesh axes at
// once (OpSpace). Every tensor is kept where that costs least, and a layout that several readers need is made there
// once. When the budget ends it returns the best plan so far; a step is one round of the solver. The bound holds for
// all plans of the space.
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>

#include "partita/base/error.h"
#include "partita/base/prime_factors.h"
#include "partita/base/units.h"
#include "partita/cost/isolated_costs.h"
#include "partita/graph/autodiff.h"
#include "partita/search/cuts/one_cut.h"
#include "partita/search/entry.h"
#include "partita/search/evaluate.h"
#include "partita/search/joint/bound_proof.h"
#include "partita/search/joint/joint.h"
#include "partita/search/joint/refine.h"
#include "partita/solver/solver.h"

namespace partita {

namespace {

constexpr int64_t kDefaultSteps = 200;          // of the solver, if no budget is given
constexpr int64_t kStepsInTime = 50;            // for `auto` with Objective::kTime: the network's cost is not the step
constexpr int kAxes = 2;                        // of the mesh, at most, if no number is given
constexpr int64_t kEntries = int64_t{1} << 28;  // of all edges' tables, on more than two axes
constexpr double kLookGap = 1e-4;               // a solution so near to its bound is tried for fit

std::optional<int64_t> narrowed(const std::optional<solver::Wide>& cost) {
  if (!cost) return std::nullopt;
  return static_cast<int64_t>(*cost);
}

[[noreturn]] void throw_ended(const Budget& budget, const char* when) {
  if (budget.stopped()) throw Error(ExitCode::kInterrupted, fmt::format("exact: interrupted {}", when));
  throw Error(ExitCode::kTimeLimit, fmt::format("exact: the budget ended {}", when));
}

// The given mesh, if it has all devices.
std::optional<Mesh> given_mesh(const Problem& problem) {
  const auto given = problem.options.find("mesh"), axes = problem.options.find("axes");
  if (given == problem.options.end() || given->second == "axes") return std::nullopt;
  if (axes != problem.options.end() && axes->second != std::to_string(kAxes))
    throw Error(ExitCode::kUsage, "exact: a mesh has its own number of axes; give axes or mesh");
  Mesh mesh{extents_of(given->second), slowest_link_first(problem.cluster)};
  double positions = 1;
  for (int extent : mesh.extents) {
    if (extent < 2)
      throw Error(ExitCode::kUsage,
                  fmt::format("exact: mesh {} has an axis of {}; leave it out", given->second, extent));
    positions *= extent;
  }
  if (positions != problem.cluster.compute_count)
    throw Error(ExitCode::kUsage, fmt::format("exact: mesh {} is of {:.0f} devices, cluster '{}' has {}", given->second,
                                              positions, problem.cluster.name, problem.cluster.compute_count));
  return mesh;
}

// Builds the problem on the given mesh, or on one of at most the given number of axes. It has fewer axes, but two, if
// the tables would be too large, and fewer if half of the time left passes without them.
JointProblem build(const Problem& problem, const Budget& budget,
                   const std::optional<std::chrono::steady_clock::time_point>& deadline,
                   const std::shared_ptr<JointCosts>& costs) {
  using Clock = std::chrono::steady_clock;
  if (const auto mesh = given_mesh(problem)) {
    if (auto joint = joint_problem(
            problem, {*mesh, {}},
            {.tensor_entries = JointLimits::kManyEntries, .deadline = deadline, .stop = budget.stop, .costs = costs}))
      return std::move(*joint);
    throw_ended(budget, "while the cost network was built");
  }
  const auto chosen = problem.options.find("axes");
  const int most = static_cast<int>(prime_factors(problem.cluster.compute_count).size());
  for (int axes = std::clamp(chosen == problem.options.end() ? kAxes : std::stoi(chosen->second), 1, std::max(1, most));
       axes > 0; --axes) {
    JointLimits limits{.deadline = deadline, .stop = budget.stop, .costs = costs};
    if (axes > 2) limits.entries = kEntries;
    else limits.tensor_entries = JointLimits::kManyEntries;
    if (axes > 1 && deadline) limits.deadline = Clock::now() + (*deadline - Clock::now()) / 2;
    if (auto joint = joint_problem(problem, {joint_mesh(problem.cluster, axes), {}}, limits)) return std::move(*joint);
    if (budget.stopped()) break;
  }
  throw_ended(budget, "while the cost network was built");
}

void begin_with(const Problem& problem, const JointProblem& joint, solver::Options& options, SearchResult& result) {
  options.start = values_of(joint, problem.graph, *problem.from);
  if (options.start)
    result.notes.push_back(fmt::format(
        "begun with {}", cost_text(problem, *narrowed(solver::evaluate(joint.network, *options.start).cost))));
  else
    result.notes.push_back(fmt::format("nothing of the plan to begin with is in the space of mesh {}",
                                       fmt::join(joint.mesh.extents, "x")));
}

// With copies left out, a solution near its bound, or that of half of the time, shows whether copies matter. If its
// plan fits, the solver goes on from it.
Fitting first_look(const Problem& problem, const JointProblem& joint, solver::Options options) {
  using Clock = std::chrono::steady_clock;
  solver::Options look = options;
  look.gap = std::max(look.gap, kLookGap);
  if (look.deadline) look.deadline = Clock::now() + (*look.deadline - Clock::now()) / 2;
  Fitting first = solve_fitting(problem, joint, look, std::nullopt, 0);
  const bool ended = (options.stop && *options.stop) || (options.deadline && Clock::now() > *options.deadline);
  const bool is_near = first.first.bound && solver::is_within(options.gap, first.first.cost, *first.first.bound);
  if (!first.plan || first.first.status == solver::Status::kOptimal || is_near || ended) return first;
  options.start = first.first.solution;
  Fitting fitting = solve_fitting(problem, joint, options);
  if (first.first.bound > fitting.first.bound) {
    fitting.first.bound = first.first.bound;
    fitting.first.certificate = std::move(first.first.certificate);
  }
  if (!fitting.plan) fitting.plan = std::move(first.plan);
  return fitting;
}

// If a plan does not fit and copies were left out, solves once more with them. The first bound and its proof stay.
void count_copies(const Problem& problem, const Budget& budget, solver::Options options, const Mesh& mesh,
                  const std::shared_ptr<JointCosts>& costs, Fitting& fitting, SearchResult& result) {
  const auto joint = joint_problem(
      problem, {mesh, {}}, {.counts_copies = true, .deadline = options.deadline, .stop = budget.stop, .costs = costs});
  if (!joint) return;
  result.notes.push_back(
      fmt::format("that plan needs {} more than a device has; solved again with the copies counted that lie from the "
                  "forward to the backward pass",
                  megabytes(static_cast<double>(fitting.deficit_bytes))));
  options.start.reset();
  if (problem.from) options.start = values_of(*joint, problem.graph, *problem.from);
  if (options.progress)
    options.progress = [tell = options.progress, bound = fitting.first.bound](solver::Progress p) {
      p.bound = bound;
      tell(p);
    };
  options.certify = false;
  Fitting again = solve_fitting(problem, *joint, options);
  fitting.plan = std::move(again.plan);
  fitting.status = again.status;
  fitting.tightenings += again.tightenings;
  if (again.tightenings > 0) fitting.deficit_bytes = again.deficit_bytes;
}

void prove(const Problem& problem, const JointProblem& joint, solver::Wide bound, solver::Certificate certificate,
           SearchResult& result) {
  if (certificate.empty() || !certificate.bound) return;
  if (*certificate.bound < bound)
    result.notes.push_back(fmt::format("its proof says {}; the rest was computed by elimination",
                                       cost_text(problem, *narrowed(certificate.bound))));
  auto proof = std::make_shared<BoundProof>(BoundProof{"exact",
                                                       text_of(problem.objective),
                                                       joint.mesh,
                                                       *joint.network.limit,
                                                       {},
                                                       {},
                                                       "",
                                                       joint.network.variables(),
                                                       joint.tensor_entries,
                                                       std::move(certificate)});
  for (const auto& [op, choice] : problem.constraints.ops) proof->pinned_ops.push_back(problem.graph.op(op).name);
  for (const auto& [tensor, placement] : problem.constraints.kept)
    proof->pinned_tensors.push_back(problem.graph.tensor(tensor).name);
  result.proof = std::move(proof);
}

// ", without recomputation or micro-batches", as far as the step has none: with them less memory may be enough.
std::string without_what_saves(const Graph& graph) {
  std::vector<std::string> without;
  if (std::none_of(graph.ops.begin(), graph.ops.end(), [&](const Op& op) { return is_clone(graph, op); }))
    without.emplace_back("recomputation");
  if (graph.micro_batches() == 1) without.emplace_back("micro-batches");
  return without.empty() ? "" : fmt::format(", without {}", fmt::join(without, " or "));
}

std::string nothing_fits(const Problem& problem, const JointProblem& joint, const solver::Options& options) {
  solver::Network free = joint.network;
  free.limit.reset();
  for (solver::Network::Use& use : free.uses)  // as little as each can
    use.amounts.assign(use.amounts.size(), *std::min_element(use.amounts.begin(), use.amounts.end()));
  const solver::Wide least = *solver::evaluate(free, solver::Assignment(free.costs.size(), 0)).peak;
  const std::string without = without_what_saves(problem.graph);
  if (least > *joint.network.limit)
    return fmt::format("proved: at some time every plan of the space needs {} on one device, {} more than it has{}",
                       megabytes(static_cast<double>(least)),
                       megabytes(static_cast<double>(least - *joint.network.limit)), without);
  free = joint.network;
  free.limit.reset();
  const solver::Result cheapest = solver::solve(free, options);
  if (!cheapest.solution)
    return cheapest.status == solver::Status::kInfeasible ? "proved: what is pinned contradicts itself"
                                                          : "proved: no plan of the space fits" + without;
  return fmt::format(
      "proved: no plan of the space fits{}; the cheapest needs {} more than a device has", without,
      megabytes(static_cast<double>(memory_deficit(problem, plan_of(joint, problem.graph, *cheapest.solution)))));
}

void describe(const Problem& problem, const JointProblem& joint, const solver::Result& solved, double built_seconds,
              SearchResult& result) {
  size_t values = 0, strategies = 0;
  std::map<const solver::Table*, size_t> tables;
  for (const auto& op : joint.ops) strategies += op->strategies.size();
  for (const solver::Network::Edge& e : joint.network.edges) tables[e.table.get()] = e.table->size();
  size_t entries = 0;
  for (const auto& [table, size] : tables) entries += size;
  for (const solver::Table& costs : joint.network.costs) values = std::max(values, costs.size());
  result.counters = solved.counters;
  result.counters["variables"] = joint.network.variables();
  result.counters["edges"] = static_cast<double>(joint.network.edges.size());
  result.counters["largest_domain"] = static_cast<double>(values);
  result.counters["network_seconds"] = built_seconds;
  result.counters["strategies"] = static_cast<double>(strategies);
  result.counters["tables"] = static_cast<double>(tables.size());
  result.counters["table_entries"] = static_cast<double>(entries);
  result.notes.push_back(
      fmt::format("mesh {}: {} variables of at most {} values, {} strategies; {} edges, {} different tables of {} "
                  "entries, built in {:.3f} s",
                  fmt::join(joint.mesh.extents, "x"), joint.network.variables(), values, strategies,
                  joint.network.edges.size(), tables.size(), entries, built_seconds));
  const char* serial = problem.in_time() ? " if nothing overlapped" : "";
  if (solved.solution)
    result.notes.push_back(fmt::format("cost {}{}, {}", cost_text(problem, *narrowed(solved.cost)), serial,
                                       solver::name_of(solved.status)));
  if (solved.bound) {
    const int64_t bound =
        std::max<int64_t>(*narrowed(solved.bound), 0);  // an unfinished dual may be below all possible costs
    (problem.in_time() ? result.lower_bound_serial_ns : result.lower_bound_comm_bytes) = bound;
    result.notes.push_back(fmt::format("no plan of the space {} less than {}{}", problem.in_time() ? "takes" : "moves",
                                       cost_text(problem, bound), serial));
  }
}

SearchResult solved(const Problem& problem, const Budget& budget, Rng& rng) {
  const auto start = std::chrono::steady_clock::now();
  const Watch watch = budget.watch();
  solver::Options options;
  options.deadline = watch.deadline;
  if (budget.steps || !watch.deadline) options.max_steps = budget.steps.value_or(kDefaultSteps);
  options.seed = rng.next();
  options.stop = budget.stop;
  options.gap = budget.gap;
  options.certify = problem.prove;
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const std::shared_ptr<JointCosts> costs = joint_costs(problem);
  const JointProblem joint = build(problem, budget, options.deadline, costs);
  const double built_seconds = seconds();

  SearchResult result;
  if (problem.from) begin_with(problem, joint, options, result);
  if (problem.progress)
    options.progress = [&](const solver::Progress& p) {
      problem.progress({narrowed(p.cost), narrowed(p.bound), seconds()});
    };
  const bool looks = joint.leaves_copies_out && !holds_any_plan(problem);
  auto solve = [&] { return looks ? first_look(problem, joint, options) : solve_fitting(problem, joint, options); };
  options.deadline = watch.share(budget.share).deadline;
  Fitting fitting = solve();
  if (!fitting.plan && budget.share < 1 && fitting.status != solver::Status::kInfeasible && watch.deadline &&
      !watch.ended()) {
    options.deadline = watch.deadline;
    fitting = solve();
  }
  describe(problem, joint, fitting.first, built_seconds, result);
  if (problem.prove && fitting.first.bound)
    prove(problem, joint, *fitting.first.bound, std::move(fitting.first.certificate), result);
  if (joint.leaves_copies_out && !fitting.plan && fitting.tightenings > 0)
    count_copies(problem, budget, options, joint.mesh, costs, fitting, result);
  result.counters["memory_tightenings"] = fitting.tightenings;
  result.plan = std::move(fitting.plan);
  if (result.plan) return result;
  const bool ended = watch.ended();
  if (fitting.status == solver::Status::kUnknown || (ended && fitting.status != solver::Status::kInfeasible))
    throw_ended(budget,
                fitting.tightenings == 0 ? "before any solution was found" : "before a solution was found that fits");
  result.reason = fitting.tightenings == 0
                      ? nothing_fits(problem, joint, options)
                      : fmt::format("of {} plans looked at, the last needs {} more than a device has",
                                    fitting.tightenings, megabytes(static_cast<double>(fitting.deficit_bytes)));
  return result;
}

SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  const std::optional<Plan> from = initial_plan(problem);
  if (!from || memory_deficit(problem, *from) > 0) return solved(problem, budget, rng);
  SearchResult result;
  try {
    result = solved(problem, budget, rng);
  } catch (const Error& error) {
    if (!is_end(error)) throw;
    result.notes.push_back(error.what());
  }
  const int64_t cost = cost_of(problem, *from);
  if (result.plan && cost_of(problem, *result.plan) <= cost) return result;
  result.plan = from;
  result.notes.push_back(
      fmt::format("nothing cheaper was found than the {} of the plan that it began with", cost_text(problem, cost)));
  auto& bound = problem.in_time() ? result.lower_bound_serial_ns : result.lower_bound_comm_bytes;
  if (bound.value_or(0) > (problem.in_time() ? serial_ns(problem.graph, *from, problem.cluster) : cost)) {
    bound.reset();
    result.notes.push_back("that plan lies outside of the space, and the lower bound does not hold for it");
  }
  return result;
}

}  // namespace

SearchEntry exact_search() {
  return {.name = "exact",
          .source = "ours",
          .summary =
              "all mesh axes at once, as one cost network: the fewest bytes within the memory, with a proved "
              "lower bound; over more than two axes slow",
          .options = {{"axes", {"2", "N"}}, {"mesh", {"axes", "PxQ"}}},
          .search = search,
          .offers = {.joint = {.is_offered = true, .bytes_work = 1},
                     .refiner = axis_refiner(),
                     .about = "the joint problem",
                     .steps_in_time = kStepsInTime},
          .warm = true,
          .proves = true};
}

}  // namespace partita
