// Solves joint problems so that their plans fit, and makes plans cheaper one mesh axis at a time.
#include "partita/search/joint/refine.h"

#include <algorithm>
#include <future>

#include "partita/base/error.h"
#include "partita/base/prime_factors.h"
#include "partita/base/run_async.h"
#include "partita/base/tuples.h"
#include "partita/plan/rules.h"
#include "partita/search/cuts/one_cut.h"
#include "partita/search/evaluate.h"

namespace partita {

namespace {

constexpr int64_t kTensorValues = 2048;  // of a neighbourhood, in bytes: a good solution counts there, not the bound
constexpr int kLoosenings = 3;           // how often a limit that no solution keeps is raised again, half of the way
// For `auto`.
constexpr int64_t kRounds = 20;  // of the solver, for a neighbourhood
constexpr double kGap = 1e-4;
constexpr int64_t kEntries = 100'000'000;  // of the neighbourhoods' tables, if no time is given

// Per axis of the coarse mesh, the extents of its own axes.
std::vector<std::vector<int>> factors_of(const Mesh& mesh) {
  std::vector<std::vector<int>> factors;
  for (int extent : mesh.extents) factors.push_back(prime_factors(extent));
  return factors;
}

template <typename T>
std::vector<T> repeated(const std::vector<T>& per_axis, const std::vector<std::vector<int>>& factors) {
  std::vector<T> out;
  for (size_t a = 0; a < per_axis.size(); ++a) out.insert(out.end(), factors[a].size(), per_axis[a]);
  return out;
}

Mesh refined(const Mesh& mesh) {
  Mesh out{{}, mesh.devices};
  for (const std::vector<int>& f : factors_of(mesh)) out.extents.insert(out.extents.end(), f.begin(), f.end());
  return out;
}

// Those of tensors on the refined mesh; ops that are fixed keep what they have.
std::optional<Constraints> refined(const Constraints& constraints, const Mesh& mesh) {
  Constraints out;
  for (const auto& [tensor, placement] : constraints.kept) {
    if (refined(placement.mesh) != mesh) return std::nullopt;
    out.kept[tensor] = {mesh, repeated(placement.sbp, factors_of(placement.mesh)), placement.radices};
  }
  return out;
}

// Tells whether it is replicated on no axis on which the other is not.
bool divides_as_much(const std::vector<tdl::AxisStrategy>& a, const std::vector<tdl::AxisStrategy>& b) {
  for (size_t axis = 0; axis < a.size(); ++axis)
    if (a[axis].replicate() && !b[axis].replicate()) return false;
  return true;
}

// The space for every op: as it is, then strategies that divide its work on these axes, then those of `others`.
JointSpace neighbourhood(const Problem& problem, const Refined& now, const std::vector<size_t>& axes,
                         const std::vector<Refined>& others) {
  JointSpace space{now.mesh, {}};
  for (size_t i = 0; i < problem.graph.ops.size(); ++i) {
    const Op& op = problem.graph.ops[i];
    std::vector<std::vector<tdl::AxisStrategy>> offered = {now.strategies[i]};
    auto offer = [&](const std::vector<tdl::AxisStrategy>& strategies) {
      if (std::find(offered.begin(), offered.end(), strategies) == offered.end()) offered.push_back(strategies);
    };
    if (!problem.constraints.choice_of(OpId(i))) {
      std::vector<std::vector<tdl::AxisStrategy>> on_axis;
      std::vector<size_t> counts;
      for (size_t axis : axes) {
        on_axis.push_back({now.strategies[i][axis]});
        for (tdl::AxisStrategy& s : allowed_strategies(op, now.mesh.extents[axis]))
          if (!s.names.empty() || (s.partial.empty() ? problem.in_time() : tdl::is_elementwise(*op.bound)))
            on_axis.back().push_back(std::move(s));  // in bytes, replicated only if it is already
        counts.push_back(on_axis.back().size());
      }
      for_each_tuple(counts, [&](const std::vector<size_t>& at) {
        std::vector<tdl::AxisStrategy> changed = now.strategies[i];
        for (size_t k = 0; k < axes.size(); ++k) changed[axes[k]] = on_axis[k][at[k]];
        offer(changed);
      });
      for (const Refined& other : others)
        if (problem.in_time() || divides_as_much(other.strategies[i], now.strategies[i])) offer(other.strategies[i]);
    }
    space.strategies.push_back(std::move(offered));
  }
  return space;
}

// The axes that change together: one after the other; then each two of them, if there are more than two and not so many
// that this takes minutes.
std::vector<std::vector<std::vector<size_t>>> subsets_of_axes(size_t axes) {
  constexpr size_t kMostInPairs = 4;
  std::vector<std::vector<std::vector<size_t>>> out(1);
  for (size_t a = 0; a < axes; ++a) out[0].push_back({a});
  if (axes <= 2 || axes > kMostInPairs) return out;
  out.emplace_back();
  for (size_t a = 0; a < axes; ++a)
    for (size_t b = a + 1; b < axes; ++b) out[1].push_back({a, b});
  return out;
}

// Plans the memory of a solution, while another is being proved.
class MissingBytes {
 public:
  MissingBytes(const Problem& problem, const JointProblem& joint, const Watch& watch)
      : problem_(problem), joint_(joint), watch_(watch), in_doubt_(!holds_any_plan(problem)) {}

  void begin(const solver::Assignment& solution) {
    if (!in_doubt_ || solution == solution_) return;
    solution_ = solution;
    found_ = run_async(
        [this, plan = plan_of(joint_, problem_.graph, solution)] { return memory_deficit(problem_, plan, watch_); });
  }

  // Returns the deficit of the solution's plan; zero or less: it fits.
  int64_t of(const solver::Assignment& solution, const Plan& plan) {
    if (!in_doubt_) return 0;
    return found_.valid() && solution == solution_ ? found_.get() : memory_deficit(problem_, plan, watch_);
  }

 private:
  const Problem& problem_;
  const JointProblem& joint_;
  const Watch watch_;
  const bool in_doubt_;
  solver::Assignment solution_;
  std::future<int64_t> found_;  // of that solution, unless requested
};

}  // namespace

Fitting solve_fitting(const Problem& problem, const JointProblem& joint, solver::Options options,
                      std::optional<int64_t> below, int most_tightenings, const Watch& watch) {
  std::optional<solver::Network> changed;  // a copy, once its limit is another
  auto network = [&]() -> const solver::Network& { return changed ? *changed : joint.network; };
  auto set_limit = [&](int64_t limit) {
    if (!changed) changed = joint.network;
    changed->limit = limit;
  };
  MissingBytes deficit_bytes(problem, joint, watch);
  if (options.threads > 1) options.proving = [&](const solver::Assignment& solution) { deficit_bytes.begin(solution); };
  Fitting out;
  int64_t kept = *network().limit;  // the least limit that some solution keeps
  for (int loosenings = 0; out.tightenings <= most_tightenings;) {
    solver::Result later;
    solver::Result& solved = out.tightenings == 0 ? out.first : later;
    solved = solver::solve(network(), options);
    out.status = solved.status;
    if (out.tightenings == 0 && options.progress)
      options.progress = [tell = options.progress, bound = solved.bound](solver::Progress p) {
        p.bound = bound;
        tell(p);
      };
    const bool ended =
        (options.stop && *options.stop) || (options.deadline && std::chrono::steady_clock::now() > *options.deadline);
    if (!solved.solution && out.tightenings > 0 && !ended && loosenings++ < kLoosenings) {
      set_limit(*network().limit + (kept - *network().limit) / 2);
      continue;
    }
    if (!solved.solution || (below && solved.cost >= *below)) return out;
    kept = std::min(kept, *network().limit);
    Plan plan = plan_of(joint, problem.graph, *solved.solution);
    const int64_t missing = deficit_bytes.of(*solved.solution, plan);
    if (missing <= 0) {
      out.plan = std::move(plan);
      return out;
    }
    out.deficit_bytes = missing;
    ++out.tightenings;
    // Lowers the limit below this solution's peak, since its plan does not fit.
    const auto peak = static_cast<double>(solver::evaluate(network(), *solved.solution).peak.value_or(0)),
               memory = static_cast<double>(*joint.network.limit);
    set_limit(std::min(*network().limit - missing,
                       static_cast<int64_t>(peak * memory / (memory + static_cast<double>(missing)))));
    if (ended) return out;
  }
  return out;
}

std::optional<Refined> refined(const Plan& plan, const Cluster& cluster) {
  if (plan.ops.empty()) return std::nullopt;
  const Mesh& mesh = plan.ops[0].mesh;
  if (mesh.positions() != cluster.compute_count) return std::nullopt;
  Refined out{refined(mesh), {}};
  const std::vector<std::vector<int>> factors = factors_of(mesh);
  for (const OpChoice& choice : plan.ops) {
    if (choice.mesh == mesh) out.strategies.push_back(repeated(choice.strategies, factors));
    else if (refined(choice.mesh) == out.mesh)
      out.strategies.push_back(repeated(choice.strategies, factors_of(choice.mesh)));
    else return std::nullopt;
  }
  return out;
}

Refinement refine(const Problem& problem, const Plan& plan, int64_t cost, const std::vector<Plan>& others,
                  const solver::Options& solving, const std::function<void(const Refinement&)>& tell,
                  int64_t most_entries) {
  Refinement out{std::nullopt, cost, 0};
  std::optional<Refined> now = refined(plan, problem.cluster);
  if (!now) return out;
  Problem on_mesh = problem;
  if (auto constraints = refined(problem.constraints, now->mesh)) on_mesh.constraints = std::move(*constraints);
  else return out;
  std::vector<Refined> alike;
  for (const Plan& other : others)
    if (auto r = refined(other, problem.cluster); r && r->mesh == now->mesh) alike.push_back(std::move(*r));
  const std::shared_ptr<JointCosts> costs = joint_costs(problem);
  const Watch watch{solving.deadline, solving.stop};
  // Tells whether a cheaper plan was found on these axes; empty if time or entries ran out first.
  auto improve = [&](const std::vector<size_t>& axes) -> std::optional<bool> {
    if (out.entries >= most_entries) return std::nullopt;
    solver::Options options = solving;
    JointLimits limits;
    limits.costs = costs;
    if (!problem.in_time()) limits.tensor_values = kTensorValues;
    limits.deadline = options.deadline;
    limits.stop = options.stop;
    const auto joint = joint_problem(on_mesh, neighbourhood(problem, *now, axes, alike), limits);
    if (!joint) return std::nullopt;
    ++out.neighbourhoods;
    for (const solver::Network::Edge& e : joint->network.edges) out.entries += static_cast<int64_t>(e.table->size());
    if (tell) tell(out);
    options.start = with_best_tensors(*joint, std::vector<int>(problem.graph.ops.size(), 0));
    Fitting fitting = solve_fitting(on_mesh, *joint, options,
                                    problem.in_time() ? std::nullopt : std::optional(out.cost), kTightenings, watch);
    if (!fitting.plan) return false;
    const int64_t found = cost_of(problem, *fitting.plan, watch);
    if (found >= out.cost) return false;
    out.cost = found;
    out.plan = std::move(fitting.plan);
    now = refined(*out.plan, problem.cluster);
    return true;
  };
  try {
    for (const std::vector<std::vector<size_t>>& subsets : subsets_of_axes(now->mesh.extents.size()))
      for (size_t next = 0, without = 0; without < subsets.size(); next = (next + 1) % subsets.size()) {
        const auto better = improve(subsets[next]);
        if (!better) return out;
        without = *better ? 1 : without + 1;  // 1: these axes are at their best
      }
  } catch (const Error& error) {
    if (!is_end(error)) throw;
  }
  return out;
}

Refiner axis_refiner() {
  return {.applies = [](const Plan& plan, const Cluster& cluster) { return refined(plan, cluster).has_value(); },
          .refine =
              [](const ToRefine& r, Rng& rng) {
                solver::Options solving;
                solving.seed = rng.next();
                solving.stop = r.watch.stop;
                solving.deadline = r.watch.deadline;
                solving.max_steps = kRounds;
                solving.gap = kGap;
                solving.certify = false;
                return refine(r.problem, r.plan, r.cost, r.others, solving, r.tell,
                              r.watch.deadline ? std::numeric_limits<int64_t>::max() : kEntries);
              }};
}

}  // namespace partita
