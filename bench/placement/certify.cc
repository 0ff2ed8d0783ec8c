// How near to their shortest schedules coarse placement problems are proved to be by branch and bound alone.
//
//     partita_certify_bench                                    # four models, 50 to 200 vertices, 60 seconds each
//     partita_certify_bench 10 50 'zoo:rnnlm?steps=10,hidden=512'    # seconds, vertices, models
//
// On two devices of dgx-1, coarsened as the paper says. The start is the best list schedule, improved by 200,000
// changes from three seeds. Times are ms, a gap is of the best schedule; the fine gap is that of the step: of the same
// placement, in the vertices' order, to the bound of the step, which the coarse bound is not.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/models/models.h"
#include "partita/ops/ops.h"
#include "partita/placement/bounds.h"
#include "partita/placement/branch.h"
#include "partita/placement/coarsen.h"
#include "partita/placement/decode.h"
#include "partita/placement/improve.h"
#include "partita/placement/solve_program.h"
#include "partita/search/placed_graph.h"
#include "search/words.h"

namespace partita {
namespace {

constexpr int kSeeds = 3;
constexpr double kEnough = 0.05;

double seconds_since(Watch::Clock::time_point begun) {
  return std::chrono::duration<double>(Watch::Clock::now() - begun).count();
}

double percent(int64_t from, int64_t to) { return 100 * static_cast<double>(to - from) / static_cast<double>(to); }

PlacedSchedule improved_start(const PlacementProblem& p) {
  std::string why;
  const auto start = best_list_schedule(p, {}, why);
  if (!start) fail("{}", why);
  PlacedSchedule best = *start;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Rng rng(seed);
    PlacedSchedule s = improved(p, *start, {.changes = 200'000, .late = 2000}, rng, {});
    if (s.end < best.end) best = std::move(s);
  }
  return best;
}

// Whether the gap is small enough.
bool certify(const PlacementProblem& fine, int64_t fine_bound, int vertices, double seconds) {
  const Coarse coarse = coarsen(fine, vertices, {});
  const PlacementProblem& p = coarse.problem;
  const auto begun = Watch::Clock::now();
  const int64_t root = placement_bounds(p).ns();
  const double root_s = seconds_since(begun);
  const PlacedSchedule start = improved_start(p);
  const double start_s = seconds_since(begun) - root_s;
  const BranchResult r = branch_and_bound(p, start, {.seconds = seconds}, {});
  const std::string wrong = why_not(p, r.schedule);
  ensure(wrong.empty(), "{}", wrong);
  const PlacedSchedule expanded = list_schedule(fine, expanded_placement(coarse, r.schedule.device),
                                                expanded_order(coarse, order_of(r.schedule)), true);
  const double gap = percent(r.bound_ns, r.schedule.end);
  fmt::print("{:>8} {:>9.3f} {:>9.3f} {:>6.2f}% {:>9.3f} {:>6.2f}% {:>7.1f} {:>7.1f} {:>8} {:>8} {:>7.2f}%\n",
             p.ops.size(), static_cast<double>(start.end) / 1e6, static_cast<double>(r.schedule.end) / 1e6,
             percent(root, r.schedule.end), static_cast<double>(r.bound_ns) / 1e6, gap, start_s, r.seconds, r.nodes,
             r.order_nodes, percent(fine_bound, expanded.end));
  std::fflush(stdout);
  return gap <= 100 * kEnough;
}

constexpr const char* kUsage =
    "usage: partita_certify_bench [SECONDS VERTICES MODEL..]\n"
    "as 10 50 'zoo:rnnlm?steps=10,hidden=512'; without any, four models of 50, 100, 150 and 200 vertices, 60 seconds "
    "each\n";

void benchmark(int argc, char** argv) {
  if (argc > 1 && argc < 4) bad_word(fmt::format("{} words, not seconds, vertices and models", argc - 1));
  double seconds = 60;
  std::vector<int> vertices = {50, 100, 150, 200};
  std::vector<std::string> models = {"zoo:rnnlm?steps=10,hidden=512", "zoo:nmt?steps=10,hidden=512",
                                     "zoo:transformer?hidden=512,layers=4,steps=128,vocabulary=8000",
                                     "zoo:nasnet?batch=16,cells=1"};
  if (argc > 1) {
    seconds = positive_of(argv[1]);
    vertices = {int_of(argv[2])};
    models.assign(argv + 3, argv + argc);
  }
  fmt::print("{:>8} {:>9} {:>9} {:>7} {:>9} {:>7} {:>7} {:>7} {:>8} {:>8} {:>8}\n", "vertices", "start", "best", "root",
             "bound", "gap", "start s", "s", "nodes", "orders", "fine gap");
  int enough = 0, all = 0;
  const Cluster cluster = load_cluster("dgx-1", 2);
  for (const std::string& name : models) {
    const Model model = build_model(name, {}, standard_ops());
    const Graph graph = add_backward(model.graph, model.loss, {.kind = "sgd", .lr = 0.01});
    const Problem problem{.graph = graph, .cluster = cluster};
    const PlacedGraph placed = placed_graph(problem, CostModel(cluster), {});
    const auto begun = Watch::Clock::now();
    const int64_t bound = placement_bounds(placed.problem).ns();
    fmt::print("{}: {} operations, bound {:.3f} ms in {:.1f} ms\n", name, placed.problem.ops.size(),
               static_cast<double>(bound) / 1e6, 1e3 * seconds_since(begun));
    for (int n : vertices) {
      enough += certify(placed.problem, bound, n, seconds);
      ++all;
    }
  }
  fmt::print("{} of {} to {:.0f}%\n", enough, all, 100 * kEnough);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) { return partita::exit_code_of({partita::kUsage, partita::benchmark}, argc, argv); }
