// Implements Tofu's dynamic program, step by step over the factors of the device count.
#include "partita/search/cuts/tofu.h"

#include "partita/base/error.h"
#include "partita/base/prime_factors.h"

namespace partita {

namespace {

constexpr int64_t kTable = int64_t{1} << 22;  // entries of a table of elimination

struct Solved {
  std::vector<int> classes;
  std::string method;
  Elimination by;
};

Solved solve(const Coarsened& coarse, size_t tensors, const Watch& watch) {
  const GroupOrder groups = group_order(coarse, tensors, watch);
  if (auto solved = eliminate(coarse.network, groups.order, 1, kTable, watch)) {
    std::string shape =
        groups.entangled == 0
            ? "series-parallel"
            : fmt::format("{} of them neither chain nor series-parallel, by variable elimination", groups.entangled);
    return {solved->solutions[0],
            fmt::format("{} groups, {}; tables of up to {}", coarse.groups, shape, solved->largest_table), *solved};
  }
  if (auto solved = eliminate(coarse.network, small_table_order(coarse.network, watch), 1, kTable, watch))
    return {solved->solutions[0],
            fmt::format("{} groups, by variable elimination, width {}, tables of up to {}", coarse.groups,
                        solved->width, solved->largest_table),
            *solved};
  Conditioned near = eliminate_around(coarse.network, watch);
  return {near.solution,
          fmt::format("{} groups, by elimination around {} of {} variables in {} rounds, not proved minimal",
                      coarse.groups, near.held, coarse.network.variables(), near.rounds),
          {}};
}

SearchResult search(const Problem& problem, const Budget& budget, Rng&) {
  auto off = [&](const char* option) {
    auto found = problem.options.find(option);
    return found != problem.options.end() && found->second == "off";
  };
  std::vector<std::string> options;
  for (const char* option : {"coarsening", "recursion"})
    if (off(option)) options.push_back(fmt::format("{}=off", option));
  TofuProgram program{tofu_space(options.empty() ? "tofu" : fmt::format("tofu?{}", fmt::join(options, ","))),
                      prime_factors(problem.cluster.compute_count)};
  program.coarse = !off("coarsening");
  program.axes_together = off("recursion");
  return run_tofu(problem, budget, program);
}

}  // namespace

SearchResult run_tofu(const Problem& problem, const Budget& budget, const TofuProgram& program) {
  Cuts cuts(problem, program.space, program.extents, budget);
  SearchResult result;
  CutState state = cuts.start();
  const size_t axes = program.extents.size();
  for (size_t step = 1; state.extents.size() < axes; ++step) {
    const OneCut cut = cuts.next(state, program.axes_together ? static_cast<int>(axes) : 1);
    const Coarsened coarse = program.coarse ? coarsen(cuts, cut, program.rules) : uncoarsened(cuts, cut);
    const Solved solved = solve(coarse, problem.graph.tensors.size(), cuts.watch());
    state = cuts.after(state, cut, coarse.expand(solved.classes));
    const std::string prefix = fmt::format("step{}_", step);
    result.counters[prefix + "variables"] = cut.network.variables();
    result.counters[prefix + "coarse_variables"] = coarse.network.variables();
    result.counters[prefix + "groups"] = coarse.groups;
    result.counters[prefix + "merged_elementwise"] = coarse.merged_elementwise;
    result.counters[prefix + "merged_steps"] = coarse.merged_steps;
    result.counters[prefix + "largest_table"] = static_cast<double>(solved.by.largest_table);
    result.notes.push_back(fmt::format("step {} into {}: {:.6g} bytes; {} of {} choices left, {}", step,
                                       fmt::join(cut.parts, "x"), static_cast<double>(state.moved.back()),
                                       coarse.network.variables(), cut.network.variables(), solved.method));
  }
  result.plan = cuts.plan(state);
  result.notes.push_back(fmt::format("total communication {:.6g} bytes", *result.plan->paper_cost));
  return result;
}

CutSpace tofu_space(std::string search) {
  return {std::move(search), [](OpId, const tdl::AxisStrategy& s) { return s.names.size() == 1; }, false};
}

std::vector<int> one_step(const Cluster& cluster) {
  if (cluster.compute_count == 1) return {};
  return {cluster.compute_count};
}

SearchEntry tofu_search() {
  return {.name = "tofu",
          .source = "Tofu",
          .summary =
              "dynamic program over the coarsened graph, recursion over the factors of the device count; no "
              "tensor stays whole that can be split",
          .options = {{"coarsening", {"on", "off"}}, {"recursion", {"on", "off"}}},
          .search = search,
          .offers = {.initial = {.work = cuts_work}}};
}

}  // namespace partita
