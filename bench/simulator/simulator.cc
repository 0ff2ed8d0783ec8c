// Times the simulators of local task graphs: a task in the full simulation and in building its arrays, on chains,
// unrolled grids and training graphs of 1,000 to 60,000 tasks; and full, Algorithm 2 and replay on the same proposals,
// one after another for each, early and late in a greedy descent.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/task_graph/algorithm2.h"
#include "partita/task_graph/first_come.h"
#include "partita/task_graph/replay.h"
#include "partita/task_graph/testing/random_task_graph.h"

namespace partita {
namespace {

using testing::Exchanges;
using testing::RandomTaskGraph;
using testing::TaskGraphRecipe;

constexpr int kDevices = 8;

// About that many tasks.
TaskGraphRecipe recipe_of(TaskGraphRecipe::Shape shape, int tasks) {
  TaskGraphRecipe recipe;
  recipe.shape = shape;
  recipe.devices = kDevices;
  recipe.configurations = 32;
  recipe.ops = 8;
  const int few = flatten(RandomTaskGraph(recipe, 1).graph()).size();
  recipe.ops = 80;
  const int per_ten_ops = std::max(1, (flatten(RandomTaskGraph(recipe, 1).graph()).size() - few) / 7);
  recipe.ops = std::max(4, static_cast<int>(10LL * tasks / per_ten_ops));
  return recipe;
}

const char* name_of(TaskGraphRecipe::Shape shape) {
  switch (shape) {
    case TaskGraphRecipe::Shape::kChain:
      return "chain";
    case TaskGraphRecipe::Shape::kBranches:
      return "branches";
    case TaskGraphRecipe::Shape::kGrid:
      return "grid";
    case TaskGraphRecipe::Shape::kTraining:
      return "training";
  }
  return "";
}

constexpr TaskGraphRecipe::Shape kShapes[] = {TaskGraphRecipe::Shape::kChain, TaskGraphRecipe::Shape::kBranches,
                                              TaskGraphRecipe::Shape::kGrid, TaskGraphRecipe::Shape::kTraining};

void per_task(benchmark::State& state, int tasks) {
  state.counters["tasks"] = tasks;
  state.counters["per_task"] =
      benchmark::Counter(tasks, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void full(benchmark::State& state, TaskGraphRecipe::Shape shape) {
  const FlatTasks flat = flatten(RandomTaskGraph(recipe_of(shape, static_cast<int>(state.range(0))), 1).graph());
  Timeline timeline;
  for (auto _ : state) simulate_first_come(flat, timeline);
  per_task(state, flat.size());
}

void build(benchmark::State& state, TaskGraphRecipe::Shape shape) {
  const TaskGraph graph = RandomTaskGraph(recipe_of(shape, static_cast<int>(state.range(0))), 1).graph();
  FlatTasks flat;
  for (auto _ : state) flatten(graph, flat);
  per_task(state, flat.size());
}

class Stopwatch {
 public:
  template <typename F>
  auto time(F&& run) {
    const auto start = std::chrono::steady_clock::now();
    auto result = run();
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }
  double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
};

// A greedy descent: proposals that do not make the makespan longer are accepted.
struct Descent {
  RandomTaskGraph random;
  Rng rng{1};
  TaskGraph graph;
  Replay exact, bounded;
  Algorithm2 delta;
  FlatTasks flat;
  Timeline timeline;

  explicit Descent(const TaskGraphRecipe& recipe)
      : random(recipe, 1), graph(random.graph()), exact(graph), bounded(graph), delta(graph) {}

  void accept(const std::vector<std::pair<int, int>>& drawn, const Exchanges& exchanges) {
    for (const auto& [op, configuration] : drawn) random.choose(op, configuration);
    for (const auto& [slot, fragment] : exchanges) graph.fragments[static_cast<size_t>(slot)] = fragment;
  }

  // By only one simulator, until `failures` proposals in a row have brought nothing.
  void descend(int failures, int proposals) {
    for (int failed = 0; failed < failures && proposals > 0; --proposals) {
      const auto drawn = random.draw(rng, 1);
      const Exchanges exchanges = random.exchanges(drawn);
      const int64_t before_ns = bounded.makespan_ns();
      const std::optional<int64_t> after_ns = bounded.evaluate(exchanges, before_ns);
      failed = after_ns && *after_ns < before_ns ? 0 : failed + 1;
      if (!after_ns) continue;
      bounded.commit();
      accept(drawn, exchanges);
    }
    exact = Replay(graph);
    delta.~Algorithm2();
    new (&delta) Algorithm2(graph);
  }

  void compare(const std::string& name, int proposals) {
    Stopwatch building, simulating, algorithm2, replaying, rejecting;
    const ReplayCounts before = bounded.counts();
    const int64_t updates = delta.updates(), taken = exact.counts().taken;
    int accepted = 0;
    for (int i = 0; i < proposals; ++i) {
      const auto drawn = random.draw(rng, 1);
      const Exchanges exchanges = random.exchanges(drawn);
      TaskGraph proposed = graph;
      for (const auto& [slot, fragment] : exchanges) proposed.fragments[static_cast<size_t>(slot)] = fragment;
      building.time([&] { return flatten(proposed, flat), 0; });
      const int64_t expected_ns =
          simulating.time([&] { return simulate_first_come(flat, timeline), timeline.makespan_ns; });
      const bool accepts = expected_ns <= bounded.makespan_ns();
      const int64_t delta_ns = algorithm2.time([&] {
        const int64_t makespan_ns = delta.propose(exchanges);
        if (!accepts) delta.undo();
        return makespan_ns;
      });
      const auto exact_ns = replaying.time([&] {
        const auto makespan_ns = exact.evaluate(exchanges);
        if (accepts) exact.commit();
        return makespan_ns;
      });
      const auto bounded_ns = rejecting.time([&] {
        const auto makespan_ns = bounded.evaluate(exchanges, bounded.makespan_ns());
        if (makespan_ns) bounded.commit();
        return makespan_ns;
      });
      ensure(delta_ns == expected_ns && exact_ns == expected_ns && bounded_ns.has_value() == accepts,
             "the simulators differ");
      if (accepts) accept(drawn, exchanges), ++accepted;
    }
    const auto us = [&](const Stopwatch& watch) { return 1e6 * watch.seconds() / proposals; };
    const ReplayCounts& counts = bounded.counts();
    fmt::print(
        "{:24} {:6} {:5.1f}% {:9.1f} {:9.1f} {:9.1f} {:9.1f} {:9.1f} {:8.2f}x {:8.1f}x {:8.1f}x {:6.0f}% {:6.0f}%  {} "
        "{} {} {} {}\n",
        name, flat.size(), 100.0 * accepted / proposals, us(building), us(simulating), us(algorithm2), us(replaying),
        us(rejecting), us(simulating) / us(replaying), us(simulating) / us(rejecting), us(algorithm2) / us(rejecting),
        100.0 * static_cast<double>(exact.counts().taken - taken) / proposals / flat.size(),
        100.0 * static_cast<double>(delta.updates() - updates) / proposals / flat.size(),
        counts.by_loads - before.by_loads, counts.by_cut - before.by_cut, counts.by_tails - before.by_tails,
        counts.by_queues - before.by_queues, counts.exact - before.exact);
    std::fflush(stdout);
  }
};

void print_header() {
  fmt::print(
      "\nmicroseconds a proposal, which changes one op; {} devices\n"
      "{:24} {:>6} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7}  ended by: loads, cut, tails, "
      "queues, exact\n",
      kDevices, "graph", "tasks", "taken", "build", "full", "delta", "replay", "bounded", "full/rep", "full/bnd",
      "delta/bnd", "replays", "updates");
}

// "grid:10000": a shape, and about how many tasks.
void compare_at(const std::string& graph) {
  for (const TaskGraphRecipe::Shape shape : kShapes) {
    if (!graph.starts_with(fmt::format("{}:", name_of(shape)))) continue;
    const int tasks = std::stoi(graph.substr(graph.find(':') + 1));
    Descent descent(recipe_of(shape, tasks));
    const int proposals = std::min(500, 3'000'000 / tasks);
    descent.compare(fmt::format("{} early", name_of(shape)), proposals);
    descent.descend(8 * descent.random.ops(), std::min(20'000, 50 * descent.random.ops()));
    descent.compare(fmt::format("{} late", name_of(shape)), proposals);
    return;
  }
  fail("{}: a graph is chain:TASKS, branches:TASKS, grid:TASKS or training:TASKS", graph);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  using partita::kShapes;
  for (const auto shape : kShapes)
    for (const auto& [name, run] : {std::pair{"full", &partita::full}, std::pair{"build", &partita::build}})
      benchmark::RegisterBenchmark(fmt::format("{}/{}", name, partita::name_of(shape)).c_str(), run, shape)
          ->Arg(1'000)
          ->Arg(10'000)
          ->Arg(60'000);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  std::vector<std::string> graphs(argv + 1, argv + argc);
  if (graphs.empty())
    for (const auto shape : kShapes)
      for (const int tasks : {1'000, 10'000, 60'000})
        graphs.push_back(fmt::format("{}:{}", partita::name_of(shape), tasks));
  partita::print_header();
  for (const std::string& graph : graphs) partita::compare_at(graph);
}
