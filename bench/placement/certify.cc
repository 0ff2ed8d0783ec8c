// Measures how near to their shortest schedules branch and bound by itself proves coarse placement problems to be.
//
//     partita_certify_bench                            # four models, 50 to 200 vertices, 60 seconds each
//     partita_certify_bench --seconds 10 --vertices 50,100 --write FOLDER 'zoo:rnnlm?steps=10,hidden=512'
//
// Problems are on two devices of dgx-1, coarsened as the paper says, with the caps of CoarsenOptions. If these bar the
// way to so many vertices, each becomes a quarter larger until they do not. The start is the best list schedule,
// improved by 200,000 moves from three seeds. Bounds, start (at most half) and branches share the seconds. Times are
// ms, a gap is of the best schedule. The fine gap is that of the step: of the same placement, in the vertices' order,
// to the bound of the step, which the coarse bound is not. --write: each instance as a file (instance.h), before its
// row is printed.
//
//     partita_certify_bench --random 200 --write FOLDER        # small problems of all kinds, and their optima
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/output_file.h"
#include "partita/device_placement/bounds.h"
#include "partita/device_placement/branch.h"
#include "partita/device_placement/coarsen.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/improve.h"
#include "partita/device_placement/solve_program.h"
#include "partita/device_placement/testing/random_problem.h"
#include "partita/graph/autodiff.h"
#include "partita/models/models.h"
#include "partita/ops/ops.h"
#include "partita/search/device_placement/placed_graph.h"
#include "placement/instance.h"
#include "search/models.h"
#include "search/words.h"

namespace partita {
namespace {

constexpr int kSeeds = 3;
constexpr int64_t kChanges = 200'000;
constexpr double kEnough = 0.05;

struct Fine {
  std::string model;
  const PlacementProblem& problem;
  int64_t bound_ns;
};

double seconds_since(Watch::Clock::time_point begun) {
  return std::chrono::duration<double>(Watch::Clock::now() - begun).count();
}

double gap(int64_t from, int64_t to) { return static_cast<double>(to - from) / static_cast<double>(to); }

double ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

// Coarsens to no more vertices than `target`: `options` has the caps that this takes.
Coarse coarsened(const PlacementProblem& fine, int target, CoarsenOptions& options) {
  constexpr double kWider = 1.25;
  while (true) {
    Coarse coarse = coarsen(fine, target, options);
    const bool capped = options.time_share < 1 || options.memory_share < 1;
    if (static_cast<int>(coarse.problem.ops.size()) <= target || !capped) return coarse;
    options.time_share *= kWider;
    options.memory_share *= kWider;
  }
}

// Until the watch's end, or a step as short as the bound, if that comes before the last change.
PlacedSchedule improved_start(const PlacementProblem& p, int64_t bound_ns, const Watch& watch) {
  std::string why;
  const auto start = best_list_schedule(p, {}, why);
  if (!start) fail("{}", why);
  PlacedSchedule best = *start;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Rng rng(seed);
    PlacedSchedule s =
        improve_schedule(p, *start, {.changes = kChanges, .enough_ns = bound_ns, .late = 2000}, rng, watch);
    if (s.end < best.end) best = std::move(s);
  }
  return best;
}

void write_instance(const std::string& path, const std::string& model, const PlacementProblem& p,
                    const CoarsenOptions& caps, const Found& found) {
  Json json = {
      {"name", path.substr(path.rfind('/') + 1)}, {"model", model}, {"caps", {caps.time_share, caps.memory_share}}};
  json.update(json_of(p));
  json["ours"] = json_of(found);
  write_file(path + ".json", json.dump() + "\n");
}

// Tells whether the gap is small enough. Writes no file if `path` is empty.
bool certify(const Fine& fine, int vertices, double seconds, const std::string& path) {
  CoarsenOptions caps;
  const Coarse coarse = coarsened(fine.problem, vertices, caps);
  const PlacementProblem& p = coarse.problem;
  const auto begun = Watch::Clock::now();
  Found found;
  found.root_ns = placement_bounds(p).ns();
  Watch half;
  half.deadline =
      begun + std::chrono::duration_cast<Watch::Clock::duration>(std::chrono::duration<double>(seconds / 2));
  const PlacedSchedule start = improved_start(p, found.root_ns, half);
  const double start_s = seconds_since(begun);
  BranchResult r = branch_and_bound(p, start, {.seconds = std::max(0.0, seconds - start_s)}, {});
  found.seconds = start_s + r.seconds;
  const std::string wrong = schedule_error(p, r.schedule);
  ensure(wrong.empty(), "{}", wrong);
  const PlacedSchedule expanded = list_schedule(fine.problem, expanded_placement(coarse, r.schedule.device),
                                                expanded_order(coarse, order_of(r.schedule)), true);
  found.fine_gap = gap(fine.bound_ns, expanded.end);
  found.bound_ns = r.bound_ns;
  found.nodes = r.nodes;
  found.order_nodes = r.order_nodes;
  found.schedule = std::move(r.schedule);
  if (!path.empty()) write_instance(path, fine.model, p, caps, found);
  const int64_t end = found.schedule.end;
  fmt::print(
      "{:>8} {:>4.1f}, {:>4.1f}% {:>9.3f} {:>9.3f} {:>6.2f}% {:>9.3f} {:>6.2f}% {:>7.1f} {:>7.1f} {:>8} {:>8} "
      "{:>7.2f}%\n",
      p.ops.size(), 100 * caps.time_share, 100 * caps.memory_share, ms(start.end), ms(end),
      100 * gap(found.root_ns, end), ms(found.bound_ns), 100 * gap(found.bound_ns, end), start_s, found.seconds,
      found.nodes, found.order_nodes, 100 * found.fine_gap);
  std::fflush(stdout);
  return gap(found.bound_ns, end) <= kEnough;
}

// With hosts, groups, little memory, second protocols, and routes that share a queue.
PlacementProblem any_problem(uint64_t seed) {
  Rng rng(seed);
  PlacementProblem p = random_problem(rng, {.ops = 4 + static_cast<int>(rng.below(9)),
                                            .devices = 2 + static_cast<int>(rng.below(3)),
                                            .host = rng.below(2) == 0,
                                            .most_reads = 1 + static_cast<int>(rng.below(3)),
                                            .groups = static_cast<int>(rng.below(3))});
  draw_memory_and_ways(rng, p);
  const bool protocols = rng.below(2) == 0, shared = rng.below(3) == 0;
  for (size_t from = 0; from < p.routes.size(); ++from)
    for (Route& route : p.routes[from]) {
      if (route.queue < 0) continue;
      if (protocols) route.others = {{route.latency_ns / 2, 1.7 * route.ns_per_byte}};
      if (shared) route.queue = static_cast<int>(from);
    }
  validate(p);
  return p;
}

void write_random(int count, const std::string& folder) {
  if (folder.empty()) bad_word("random problems are for writing: --write FOLDER");
  int written = 0, proved = 0;
  for (int seed = 1; seed <= count; ++seed) {
    const PlacementProblem p = any_problem(static_cast<uint64_t>(seed));
    std::string why;
    const auto start = best_list_schedule(p, {}, why);
    if (!start) continue;  // memory
    BranchResult r = branch_and_bound(p, *start, {.seconds = 10}, {});
    const int64_t root = placement_bounds(p).ns();
    proved += r.proved();
    write_instance(fmt::format("{}/random-{}", folder, seed), "", p, {},
                   {std::move(r.schedule), r.bound_ns, root, r.nodes, r.order_nodes, r.seconds, 0});
    ++written;
  }
  fmt::print("random problems of seeds 1 to {}: {} with a start, {} of them proved\n", count, written, proved);
}

constexpr const char* kUsage =
    "usage: partita_certify_bench [--seconds S] [--vertices N,..] [--write FOLDER] [MODEL..]\n"
    "       partita_certify_bench --random N --write FOLDER\n"
    "as --seconds 10 --vertices 50,100 'zoo:rnnlm?steps=10,hidden=512'; without any, four models of 50, 100, 150 and "
    "200 vertices, 60 seconds each\n";

std::vector<int> numbers_of(const std::string& words) {
  std::vector<int> numbers;
  std::istringstream text(words);
  for (std::string word; std::getline(text, word, ',');) numbers.push_back(int_of(word));
  return numbers;
}

// rnnlm of zoo:rnnlm?steps=10
std::string family_of(const std::string& model) {
  const size_t from = model.find(':') + 1;
  return model.substr(from, model.find('?') - from);
}

void benchmark(int argc, char** argv) {
  std::vector<std::string> models(argv + 1, argv + argc);
  const double seconds = positive_of(taken(models, "--seconds", "60"));
  const std::vector<int> vertices = numbers_of(taken(models, "--vertices", "50,100,150,200"));
  const std::string folder = taken(models, "--write", "");
  const std::string random = taken(models, "--random", "");
  if (!random.empty()) return write_random(int_of(random), folder);
  for (const std::string& word : models)
    if (!word.starts_with("zoo:")) bad_word(fmt::format("'{}' is no model of the zoo", word));
  if (models.empty())
    models = {"zoo:rnnlm?steps=10,hidden=512", "zoo:nmt?steps=10,hidden=512",
              "zoo:transformer?hidden=512,layers=4,steps=128,vocabulary=8000", "zoo:nasnet?batch=16,cells=1"};
  fmt::print("{} s each; starts from seeds 1 to {}, {} changes each\n", seconds, kSeeds, kChanges);
  fmt::print("{:>8} {:>11} {:>9} {:>9} {:>7} {:>9} {:>7} {:>7} {:>7} {:>8} {:>8} {:>8}\n", "vertices", "caps", "start",
             "best", "root", "bound", "gap", "start s", "s", "nodes", "orders", "fine gap");
  int enough = 0, all = 0;
  const Cluster cluster = load_cluster("dgx-1", 2);
  for (size_t m = 0; m < models.size(); ++m) {
    const Model model = build_model(models[m], {}, standard_ops());
    const Graph graph = add_backward(model.graph, model.loss, {.kind = "sgd", .lr = 0.01});
    const Problem problem{.graph = graph, .cluster = cluster};
    const PlacedGraph placed = placed_graph(problem, CostModel(cluster), {});
    const auto begun = Watch::Clock::now();
    const PlacementProblem step = with_footprints(placed);
    const Fine fine{models[m], step, placement_bounds(step).ns()};
    fmt::print("{}: {} operations, bound {:.3f} ms in {:.1f} ms\n", fine.model, fine.problem.ops.size(),
               ms(fine.bound_ns), 1e3 * seconds_since(begun));
    for (int n : vertices) {
      const std::string name = fmt::format("{}/{}-{}-{}", folder, m + 1, family_of(fine.model), n);
      enough += certify(fine, n, seconds, folder.empty() ? "" : name);
      ++all;
    }
  }
  fmt::print("{} of {} to {:.0f}%\n", enough, all, 100 * kEnough);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) { return partita::exit_code_of({partita::kUsage, partita::benchmark}, argc, argv); }
