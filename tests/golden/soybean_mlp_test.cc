// Tests SoyBean section 2.2: five layers of 300 neurons, batch 400, on 16 devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "partita/base/error.h"
#include "partita/models/testing/training.h"
#include "partita/plan/check.h"
#include "partita/plan/constraints.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"
#include "partita/search/cuts/elimination.h"
#include "partita/search/cuts/soybean.h"
#include "partita/search/search.h"

namespace partita {
namespace {

constexpr double kMB = 1e6;

Graph mlp(const std::string& options) { return training("mlp?" + options, {}); }
Graph paper_mlp() { return mlp("layers=5,width=300,batch=400,bias=0,loss=elementwise"); }

double checked_mb(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  return static_cast<double>(check(graph, plan, cluster).comm_bytes) / kMB;
}

// Section 2.2 counts p copies while the conversion table counts p-1: an all-reduce as 2 p T, a gather or scatter as p
// T, per group.
double counted_as_in_the_text(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  double bytes = 0;
  for (const ResolvedConversion& c : resolve(graph, plan, cluster).conversions)
    for (const Step& step : c.conversion.steps) {
      if (step.bytes == 0) continue;
      EXPECT_FALSE(step.groups.empty()) << "only collectives are expected: " << name_of(step.kind);
      double p = static_cast<double>(step.groups[0].size());
      bytes += static_cast<double>(step.bytes) * p / (p - 1);
    }
  return bytes / kMB;
}

TEST(SoyBeanMlp, DataParallelMovesWhatThePaperSays) {
  Graph graph = paper_mlp();
  Cluster cluster = load_cluster("local:16");
  Plan plan = data_parallel_plan(graph, cluster);
  EXPECT_NEAR(checked_mb(graph, plan, cluster), 54.0, 0.05);
  EXPECT_NEAR(counted_as_in_the_text(graph, plan, cluster), 57.6, 0.05);
}

TEST(SoyBeanMlp, ModelParallelMovesWhatThePaperSays) {
  Graph graph = paper_mlp();
  Cluster cluster = load_cluster("local:16");
  Plan plan = model_parallel_plan(graph, cluster);
  EXPECT_NEAR(checked_mb(graph, plan, cluster), 72.0, 0.05);
  EXPECT_NEAR(counted_as_in_the_text(graph, plan, cluster), 76.8, 0.05);
}

TEST(SoyBeanMlp, SoyBeanIsAtMostTheHybrid) {
  Graph graph = paper_mlp();
  Cluster cluster = load_cluster("local:16");
  Problem problem{graph, cluster};
  Rng rng(1);
  SearchResult result = soybean_search().search(problem, {}, rng);
  ASSERT_TRUE(result.plan.has_value()) << result.reason;
  double mb = checked_mb(graph, *result.plan, cluster);
  EXPECT_LE(mb, 25.2);
  // Theorem 1: c_k = sum over cuts of 2^(k-i) delta_i. The plan moves as much, except for conversions that readers
  // share.
  double sum = 0;
  int cuts = 0;
  for (const std::string& note : result.notes) {
    double delta = 0;
    if (std::sscanf(note.c_str(), "cut %d into 2: delta_%*d = %lf bytes", &cuts, &delta) == 2)
      sum += std::ldexp(delta, cuts - 1);
  }
  EXPECT_EQ(cuts, 4);
  EXPECT_NEAR(sum, *result.plan->paper_cost, 1e-5 * sum);
  EXPECT_GE(*result.plan->paper_cost, mb * kMB);
}

TEST(SoyBeanMlp, TheHybridOfFourGroupsOfFourIsAPin) {
  Graph graph = paper_mlp();
  Cluster cluster = load_cluster("local:16");
  // Data parallel among four groups, model parallel inside: every op takes both rules' strategies, one a mesh axis.
  Plan data = data_parallel_plan(graph, cluster), model = model_parallel_plan(graph, cluster);
  Constraints pins;
  Mesh mesh{{4, 4}, slowest_link_first(cluster)};
  for (size_t i = 0; i < graph.ops.size(); ++i)
    pins.ops[OpId(i)] = {mesh, {data.ops[i].strategies[0], model.ops[i].strategies[0]}};
  for (const auto& [id, kept] : model.kept) {
    Sbp outer = data.kept.contains(id) ? data.kept.at(id).sbp[0] : Sbp::split(0);  // activations along their samples
    pins.kept[id] = {mesh, {outer, kept.sbp[0]}, {}};
  }
  Plan plan = data_parallel_plan(graph, cluster, pins);
  EXPECT_NEAR(checked_mb(graph, plan, cluster), 25.2, 0.05);
  EXPECT_NEAR(counted_as_in_the_text(graph, plan, cluster), 33.6, 0.05);
  // The same from a file: printed as a plan, read as pins.
  Plan again =
      data_parallel_plan(graph, cluster, constrain(graph, parse_pins(print(plan, graph), graph), cluster).constraints);
  EXPECT_EQ(print(again, graph), print(plan, graph));
}

// Data parallelism is in its space, so one cut is never dearer; a 1x1 convolution with stride reads less than its whole
// input.
TEST(SoyBeanOneCut, IsNoDearerThanDataParallelOnAConvolutionalNetwork) {
  Graph graph = training("resnet-18?batch=256", {});
  Cluster cluster = load_cluster("local:2");
  Problem problem{graph, cluster};
  Rng rng(1);
  SearchResult result = soybean_search().search(problem, {}, rng);
  EXPECT_LE(checked_mb(graph, *result.plan, cluster), checked_mb(graph, data_parallel_plan(graph, cluster), cluster));
}

TEST(SoyBeanOneCut, TheProgramFindsTheMinimumOfItsSpace) {
  int tried = 0;
  for (const char* options : {"layers=1,width=8,batch=6,loss=elementwise", "layers=1,width=6,batch=12,bias=0,loss=mse",
                              "layers=2,width=4,batch=8,bias=0,loss=elementwise"}) {
    Graph graph = mlp(options);
    for (const char* devices : {"local:2", "local:3"}) {
      FirstCut cut = soybean_first_cut(graph, load_cluster(devices), false);
      double assignments = 1;
      for (int v = 0; v < cut.network.variables(); ++v) assignments *= cut.network.domain(v);
      if (assignments > 3e7) continue;
      ++tried;
      Elimination brute = brute_force(cut.network);
      auto levels = eliminate(cut.network, cut.level_order),
           small = eliminate(cut.network, small_table_order(cut.network));
      ASSERT_TRUE(levels && small);
      EXPECT_EQ(levels->cost, brute.cost) << options << " " << devices;
      EXPECT_EQ(small->cost, brute.cost) << options << " " << devices;
      EXPECT_EQ(cut.network.evaluate(levels->solutions[0]), brute.cost);
    }
  }
  EXPECT_GE(tried, 3);
}

TEST(SoyBeanMlp, ABudgetThatEndsBeforeTheLastCutIsNoPlan) {
  Graph graph = mlp("layers=2,width=8,batch=8");
  Cluster cluster = load_cluster("local:8");
  Problem problem{graph, cluster};
  Rng rng(1);
  for (const Budget& budget : {Budget{std::nullopt, 1}, Budget{0.0, std::nullopt}}) {
    try {
      soybean_search().search(problem, budget, rng);
      ADD_FAILURE() << "found a plan";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kTimeLimit);
    }
  }
}

// Grids are too wide for small tables, and narrow enough to be solved with large ones.
TEST(Elimination, AroundHeldVariablesIsNearTheMinimum) {
  double worst = 1;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    constexpr int kSide = 7, kDomain = 3;
    CostNetwork network;
    for (int v = 0; v < kSide * kSide; ++v) {
      network.unary.emplace_back();
      for (int x = 0; x < kDomain; ++x) network.unary.back().push_back({static_cast<int64_t>(rng.below(50)), 0});
    }
    for (int v = 0; v < kSide * kSide; ++v)
      for (int next : {v % kSide + 1 < kSide ? v + 1 : -1, v + kSide}) {
        if (next < 0 || next >= kSide * kSide) continue;
        network.pairs.push_back({v, next, {}});
        for (int x = 0; x < kDomain * kDomain; ++x)
          network.pairs.back().cost.push_back({static_cast<int64_t>(rng.below(50)), 0});
      }
    const auto exact = eliminate(network, small_table_order(network));
    ASSERT_TRUE(exact);
    const Conditioned near = eliminate_around(network, {}, 81);
    EXPECT_GT(near.held, 0);
    EXPECT_EQ(near.cost, network.evaluate(near.solution));
    EXPECT_GE(near.cost, exact->cost);
    worst = std::max(worst, static_cast<double>(near.cost.moved) / static_cast<double>(exact->cost.moved));
    // With tables that are large enough nothing is held, and it is the minimum.
    const Conditioned whole = eliminate_around(network, {}, int64_t{1} << 24);
    EXPECT_EQ(whole.held, 0);
    EXPECT_EQ(whole.cost, exact->cost);
  }
  std::printf("at worst %.4f of the minimum\n", worst);
  EXPECT_LE(worst, 1.05);
}

// A hub of 2 values and 3 neighbours of 128 or 256 makes a table of 2^21 or 2^24 entries. Nine of the larger are more
// than all tables may have together, though each is small enough; nothing is made of them then.
TEST(Elimination, TablesTogetherHaveALimit) {
  const auto hubs = [](int count, int values) {
    CostNetwork network;
    for (int k = 0; k < count; ++k) {
      const int hub = network.variables();
      network.unary.push_back(std::vector<Cost>(2));
      for (int n = 1; n <= 3; ++n) {
        network.unary.push_back(std::vector<Cost>(values));
        network.pairs.push_back({hub, hub + n, std::vector<Cost>(2 * static_cast<size_t>(values))});
      }
    }
    return network;
  };
  const auto in_order = [](const CostNetwork& network) {
    std::vector<int> order(network.variables());
    for (size_t v = 0; v < order.size(); ++v) order[v] = static_cast<int>(v);
    return order;
  };
  const CostNetwork small = hubs(1, 128), large = hubs(9, 256);
  EXPECT_TRUE(eliminate(small, in_order(small)));
  EXPECT_FALSE(eliminate(large, in_order(large)));
}

TEST(Elimination, EqualsBruteForceOnRandomNetworks) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    CostNetwork network;
    int n = static_cast<int>(rng.between(1, 8));
    auto cost = [&] { return Cost{rng.between(-3, 9), rng.between(0, 2)}; };
    for (int v = 0; v < n; ++v) {
      network.unary.emplace_back();
      for (int64_t x = rng.between(1, 3); x > 0; --x) network.unary.back().push_back(cost());
    }
    for (int e = 0; n > 1 && e < 2 * n; ++e) {
      int a = static_cast<int>(rng.below(n)), b = static_cast<int>(rng.below(n));
      if (a == b) continue;
      CostNetwork::Pair pair{a, b, {}};
      for (int x = 0; x < network.domain(a) * network.domain(b); ++x) pair.cost.push_back(cost());
      network.pairs.push_back(pair);
    }
    std::vector<int> order(n);
    for (int v = 0; v < n; ++v) order[v] = v;
    rng.shuffle(order);
    Elimination brute = brute_force(network, 1000);
    for (const std::vector<int>& o : {order, small_table_order(network)}) {
      auto found = eliminate(network, o, 1000);
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(found->cost, brute.cost) << "seed " << seed;
      std::sort(found->solutions.begin(), found->solutions.end());
      EXPECT_EQ(found->solutions, brute.solutions) << "seed " << seed;  // all ties, each once
    }
  }
}

}  // namespace
}  // namespace partita
