// Tests searches on small graphs: one step of the published programs against brute force over its own space, and no
// plan that the checker refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "partita/base/error.h"
#include "partita/base/prime_factors.h"
#include "partita/base/rng.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"
#include "partita/models/testing/training.h"
#include "partita/ops/ops.h"
#include "partita/plan/check.h"
#include "partita/schedule/lower.h"
#include "partita/search/all/search_text.h"
#include "partita/search/cuts/tofu.h"

namespace partita {
namespace {

// A few ops, with a backward pass or without.
Graph random_graph(uint64_t seed) {
  Rng rng(seed);
  GraphBuilder build("random", standard_ops());
  const Shape extents{4, 6, 8, 12};
  auto extent = [&] { return extents[rng.below(extents.size())]; };
  std::vector<TensorId> made{build.input("x", {extent(), extent()})};
  const bool backward = rng.below(2) == 0;
  const int ops = static_cast<int>(backward ? rng.between(0, 1) : rng.between(2, 5));
  for (int i = 0; i < ops; ++i) {
    const TensorId from = made[made.size() - 1 - rng.below(std::min<size_t>(2, made.size()))];
    const Shape shape = build.shape(from);
    switch (rng.below(5)) {
      case 0:
        made.push_back(build.op("tanh", {from}));
        break;
      case 1:
        made.push_back(build.op("softmax", {from}, {{"axis", 1}}));
        break;
      case 2: {
        TensorId other = from;
        for (TensorId t : made)
          if (t != from && build.shape(t) == shape) other = t;
        made.push_back(build.op("add", {from, other}));
        break;
      }
      default:
        made.push_back(build.op("matmul", {from, build.parameter(fmt::format("w{}", i), {shape[1], extent()})}));
    }
  }
  if (backward)
    made.push_back(build.op("matmul", {made.back(), build.parameter("last", {build.shape(made.back())[1], extent()})}));
  Graph graph = build.finish({made.back()});
  return backward ? add_backward(graph, {.kind = "elementwise"}, {}) : graph;
}

// The least cost of one step, every tiling of every tensor tried: given them, an op is by itself. `alike`: an
// element-wise op may only split its operands and results as they are kept.
std::optional<Cost> tried_all(const Cuts& cuts, const OneCut& cut, bool alike) {
  const Graph& graph = cuts.graph();
  const size_t tensors = graph.tensors.size();
  double assignments = 1;
  for (size_t t = 0; t < tensors; ++t) assignments *= static_cast<double>(cut.tilings[t].size());
  if (assignments > 3e5) return std::nullopt;
  const Mesh mesh{cut.parts, {cuts.mesh().devices.begin(), cuts.mesh().devices.begin() + cut.parts[0]}};
  auto kept = [&](size_t t, int value) {
    const Tiling tiling = cut.tilings[t][value][0];
    return make_layout(mesh, {tiling == kWhole ? Sbp::broadcast() : Sbp::split(tiling)}, graph.tensors[t].shape);
  };
  std::vector<std::vector<const CostNetwork::Pair*>> pairs(graph.ops.size());
  for (const CostNetwork::Pair& p : cut.network.pairs) pairs[static_cast<size_t>(p.b) - tensors].push_back(&p);
  // allowed[op][strategy][keeper][value]
  auto allowed = [&](size_t i, size_t s, const std::vector<int>& value) {
    const Op& op = graph.ops[i];
    if (!alike || !tdl::is_elementwise(*op.bound)) return true;
    const OpLayouts& layouts = cut.ops[i]->aligned[s].layouts;
    auto same = [&](TensorId id, const Layout& layout) {
      if (graph.tensor(id).shape.empty()) return true;
      const size_t keeper = cuts.keeper_of(id).index();
      return same_placement(kept(keeper, value[keeper]), layout);
    };
    for (size_t k = 0; k < op.operands.size(); ++k)
      if (!same(op.operands[k], layouts.operands[k])) return false;
    for (size_t r = 0; r < op.results.size(); ++r)
      if (!same(op.results[r], layouts.results[r])) return false;
    return true;
  };
  std::optional<Cost> best;
  std::vector<int> value(tensors, 0);
  while (true) {
    Cost sum;
    bool feasible = true;
    for (size_t t = 0; t < tensors; ++t) sum = sum + cut.network.unary[t][value[t]];
    for (size_t i = 0; i < graph.ops.size() && feasible; ++i) {
      std::optional<Cost> least;
      const std::vector<Cost>& own = cut.network.unary[tensors + i];
      for (size_t s = 0; s < own.size(); ++s) {
        if (!allowed(i, s, value)) continue;
        Cost cost = own[s];
        for (const CostNetwork::Pair* p : pairs[i])
          cost = cost + p->cost[static_cast<size_t>(value[p->a]) * own.size() + s];
        if (!least || cost < *least) least = cost;
      }
      feasible = least.has_value();
      if (feasible) sum = sum + *least;
    }
    if (feasible && (!best || sum < *best)) best = sum;
    size_t t = tensors;
    while (t > 0 && ++value[t - 1] == static_cast<int>(cut.tilings[t - 1].size())) value[--t] = 0;
    if (t == 0) return best;
  }
}

struct MutantCounts {
  int compared = 0, dearer = 0;
  double worst = 1;
};

void compare_one_step(const Graph& graph, int devices, bool chop, MutantCounts& tally) {
  const Cluster cluster = load_cluster(fmt::format("local:{}", devices));
  const Problem problem{graph, cluster};
  Cuts cuts(problem, tofu_space("tofu"), chop ? one_step(cluster) : prime_factors(devices));
  const OneCut cut = cuts.next(cuts.start());
  const auto all = tried_all(cuts, cut, false);
  if (!all) return;
  const auto alike = tried_all(cuts, cut, true);
  ++tally.compared;
  const Coarsened free = uncoarsened(cuts, cut), coarse = coarsen(cuts, cut, {});
  auto least = [&](const Coarsened& c) {
    const auto solved = eliminate(c.network, group_order(c, graph.tensors.size()).order);
    EXPECT_TRUE(solved);
    // The cost of the coarsened network is that of the cut's own network for the values that they stand for.
    EXPECT_EQ(solved->cost, cut.network.evaluate(c.expand(solved->solutions[0])));
    return solved->cost;
  };
  EXPECT_EQ(least(free), *all);
  // If no choice splits all element-wise ops alike, ties are left out. Then the cost is between the two.
  const Cost coarsened = least(coarse);
  if (alike) {
    EXPECT_EQ(coarsened, *alike);
  }
  EXPECT_GE(coarsened, *all);
  if (coarsened.moved > all->moved) {
    ++tally.dearer;
    if (all->moved > 0)
      tally.worst = std::max(tally.worst, static_cast<double>(coarsened.moved) / static_cast<double>(all->moved));
  }
}

void random_graphs(uint64_t first, uint64_t last) {
  MutantCounts tally;
  for (uint64_t seed = first; seed < last; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph graph = random_graph(seed);
    for (int devices : {2, 3, 4})
      for (bool chop : {false, true})
        if (!chop || devices == 4) compare_one_step(graph, devices, chop, tally);
  }
  std::printf("%d steps compared with brute force; coarsening is dearer in %d, at worst %.3f times\n", tally.compared,
              tally.dearer, tally.worst);
  EXPECT_GT(tally.compared, static_cast<int>(last - first));
}

TEST(TofuStep, EqualsBruteForceOnRandomGraphs) { random_graphs(1, 61); }
TEST(LongTofuStep, EqualsBruteForceOnRandomGraphs) { random_graphs(1000, 3000); }

// No search returns a plan that the checker refuses, or that cannot be lowered, on any number of devices. A search may
// say that it has none, as data parallelism of fewer samples than devices.
void checked(const std::vector<std::string>& models, const std::vector<int>& devices, bool options) {
  for (const std::string& model : models) {
    const Graph graph = training(model);
    for (int d : devices) {
      const Cluster cluster = load_cluster(fmt::format("local:{}", d));
      for (const SearchEntry& entry : searches()) {
        if (entry.estimates || entry.seconds > 0) continue;
        std::vector<std::string> texts{entry.name};
        for (const auto& [option, values] : entry.options)
          for (size_t v = 1; options && v < values.size(); ++v)
            texts.push_back(fmt::format("{}?{}={}", entry.name, option,
                                        values[v] == "N"     ? "2"
                                        : values[v] == "PxQ" ? fmt::format("{}", d)
                                        : values[v] == "A-B" ? "1-1"
                                                             : values[v]));  // N: any count
        for (const std::string& text : texts) {
          SCOPED_TRACE(fmt::format("{} by {} on {} devices", model, text, d));
          const SearchChoice choice = parse_search(text);
          const Problem problem{graph, cluster, Objective::kComm, {}, choice.options};
          Rng rng(1), again(1);
          const auto start = std::chrono::steady_clock::now();
          SearchResult result;
          try {
            result = entry.search(problem, {}, rng);
          } catch (const Error& error) {
            EXPECT_TRUE(error.code() == ExitCode::kBadInput || error.code() == ExitCode::kInfeasible) << error.what();
            continue;
          }
          const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
          if (seconds > 1) std::printf("%s by %s on %d devices: %.1f s\n", model.c_str(), text.c_str(), d, seconds);
          if (!result.plan) continue;
          try {
            const CheckReport report = check(graph, *result.plan, cluster);
            // The sum of a search by cuts is at least the bytes that move: readers share equal conversions.
            if (result.plan->paper_cost && entry.measure == Objective::kComm) {
              EXPECT_GE(*result.plan->paper_cost, static_cast<double>(report.comm_bytes));
            }
            lower(graph, *result.plan, cluster);
          } catch (const Error& error) {
            ADD_FAILURE() << error.what();
          }
          if (d == 3) {  // the same again
            EXPECT_EQ(print(*entry.search(problem, {}, again).plan, graph), print(*result.plan, graph));
          }
        }
      }
    }
  }
}

TEST(EverySearch, IsCheckedAndLowered) {
  checked({"zoo:mlp?layers=2,width=7,batch=10"}, {2, 3, 6}, true);
  checked({"zoo:mlp?layers=2,width=12,batch=16", "zoo:rnnlm?steps=2,layers=1,hidden=10,vocabulary=7,batch=5"},
          {3, 4, 8}, false);
}

TEST(LongEverySearch, IsCheckedAndLowered) {
  checked({"zoo:lenet?batch=24", "zoo:rnnlm?steps=4,hidden=10,vocabulary=7,batch=24",
           "zoo:transformer?hidden=24,steps=10,vocabulary=40,batch=24",
           "zoo:moe?hidden=24,steps=5,vocabulary=40,experts=8,groups=2,batch=24", "zoo:resnet-18?image=32,batch=24",
           "zoo:nasnet?cells=1,filters=96,image=32,stem=2,classes=5,batch=6"},
          {2, 3, 4, 6, 8}, false);
}

}  // namespace
}  // namespace partita
