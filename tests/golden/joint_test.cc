// Tests that the joint problem's cost is the checker's count, and its minimum that of all plans of its space.
#include "partita/search/joint/joint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <set>
#include <string_view>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/builder.h"
#include "partita/graph/factors.h"
#include "partita/graph/micro_batches.h"
#include "partita/models/testing/training.h"
#include "partita/plan/check.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"
#include "partita/schedule/lower.h"
#include "partita/search/cuts/elimination.h"
#include "partita/solver/solver.h"
#include "plain_serial.h"

namespace partita {
namespace {

// Keeps each tensor where it costs least, with the ops as they are.
solver::Assignment with_best_homes(const JointProblem& joint, const solver::Assignment& values) {
  std::vector<int> ops;
  for (int v : joint.op_variable) ops.push_back(values[v]);
  return with_best_tensors(joint, ops);
}

bool is_brought(const JointProblem& joint, int variable) {
  return std::any_of(
      joint.resharded_variables.begin(), joint.resharded_variables.end(),
      [&](const std::vector<int>& list) { return std::find(list.begin(), list.end(), variable) != list.end(); });
}

// Random choices. A kept layout becomes the producer's if the drawn one cannot be. Tensors are brought in the next way
// that goes with all other choices.
solver::Assignment random_values(const JointProblem& joint, Rng& rng) {
  solver::Assignment values;
  for (const solver::Table& costs : joint.network.costs) values.push_back(static_cast<int>(rng.below(costs.size())));
  for (const solver::Network::Edge& e : joint.network.edges) {
    const size_t columns = joint.network.costs[e.variables[1]].size(),
                 column = static_cast<size_t>(values[e.variables[1]]);
    auto at = [&](int x) { return (*e.table)[static_cast<size_t>(x) * columns + column]; };
    if (is_brought(joint, e.variables[0]) || is_brought(joint, e.variables[1])) continue;
    for (int x = 0; at(values[e.variables[0]]) >= solver::kForbidden; ++x) values[e.variables[0]] = x;
  }
  for (const std::vector<int>& list : joint.resharded_variables)
    for (int v : list) {
      auto is_forbidden = [&] {
        return std::any_of(joint.network.edges.begin(), joint.network.edges.end(), [&](const solver::Network::Edge& e) {
          const size_t columns = joint.network.costs[e.variables[1]].size();
          return (e.variables[0] == v || e.variables[1] == v) &&
                 (*e.table)[static_cast<size_t>(values[e.variables[0]]) * columns +
                            static_cast<size_t>(values[e.variables[1]])] >= solver::kForbidden;
        });
      };
      while (is_forbidden()) values[v] = (values[v] + 1) % static_cast<int>(joint.network.costs[v].size());
    }
  return values;
}

TEST(Joint, PrimeFactorsGoToTheSmallestAxis) {
  EXPECT_EQ(joint_extents(8, 3), (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(joint_extents(8, 2), (std::vector<int>{4, 2}));
  EXPECT_EQ(joint_extents(12, 2), (std::vector<int>{4, 3}));
  EXPECT_EQ(joint_extents(12, 9), (std::vector<int>{3, 2, 2}));
  EXPECT_EQ(joint_extents(7, 2), (std::vector<int>{7}));
  EXPECT_EQ(joint_extents(1, 1), (std::vector<int>{}));
}

TEST(Joint, GivesUpAboveItsLimits) {
  const Graph graph = training("mlp?layers=2,width=12,batch=10");
  const Cluster cluster = load_cluster("local:4");
  const Problem problem{graph, cluster};
  EXPECT_TRUE(joint_problem(problem, {joint_mesh(cluster, 2), {}}));
  EXPECT_FALSE(joint_problem(problem, {joint_mesh(cluster, 2), {}}, {.entries = 10}));
  EXPECT_FALSE(joint_problem(problem, {joint_mesh(cluster, 2), {}}, {.deadline = std::chrono::steady_clock::now()}));
}

// Models, and their numbers of micro-batches.
std::vector<std::pair<const char*, int>> models_and_parts(const char* transformer) {
  return {{"mlp?layers=2,width=12,batch=10", 1},
          {"lenet?batch=6", 1},
          {transformer, 1},
          {"rnnlm?steps=2,hidden=8,vocabulary=9,batch=4", 1},
          {"mlp?layers=2,width=12,batch=20", 4},
          {transformer, 2}};
}

TEST(Joint, ItsCostIsTheCheckersCount) {
  constexpr uint64_t kSeed = 11;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  for (const auto& [model, parts] :
       models_and_parts("transformer?layers=1,hidden=16,heads=2,steps=6,vocabulary=20,batch=4")) {
    const Graph graph = in_micro_batches(training(model), parts);
    for (const auto& [devices, axes] : {std::pair(2, 1), {3, 1}, {4, 2}, {8, 3}}) {
      if (axes == 3 && std::string_view(model).substr(0, 3) != "mlp") continue;  // slow
      SCOPED_TRACE(fmt::format("{} on {}", model, devices));
      const Cluster cluster = load_cluster(fmt::format("local:{}", devices));
      // Sets of layouts that readers share as values; each such layout as a variable; with copies counted.
      std::vector<JointLimits> limits = {{.tensor_values = 600}};
      if (devices < 8) limits.insert(limits.end(), {{.tensor_values = 1}, {.tensor_values = 1, .counts_copies = true}});
      for (const JointLimits& limit : limits) {
        const std::optional<JointProblem> built =
            joint_problem({graph, cluster}, {joint_mesh(cluster, axes), {}}, limit);
        ASSERT_TRUE(built);
        const JointProblem& joint = *built;
        EXPECT_NO_THROW(validate(joint.network));
        size_t largest = 0;
        for (const solver::Table& costs : joint.network.costs) largest = std::max(largest, costs.size());
        std::printf("%s on %d: %d variables of at most %zu values, %zu edges\n", model, devices,
                    joint.network.variables(), largest, joint.network.edges.size());
        for (int i = 0; i < 3; ++i) {
          const solver::Assignment drawn = random_values(joint, rng), best = with_best_homes(joint, drawn);
          auto counted = [&](const solver::Assignment& values) {
            return static_cast<int64_t>(solver::evaluate(joint.network, values).cost);
          };
          auto checked = [&](const solver::Assignment& values) {
            return check(graph, plan_of(joint, graph, values), cluster).comm_bytes;
          };
          ASSERT_EQ(solver::evaluate(joint.network, drawn).forbidden, 0);
          // Two readers that want one layout other than the kept one are counted twice if the tensor may as well be
          // kept so.
          EXPECT_GE(counted(drawn), checked(drawn));
          EXPECT_EQ(counted(best), checked(best));
        }
      }
    }
  }
}

TEST(Joint, InTimeItsCostIsThatOfAllPartsOneAfterAnother) {
  constexpr uint64_t kSeed = 13;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  for (const auto& [model, parts] :
       models_and_parts("transformer?layers=1,hidden=16,heads=4,steps=6,vocabulary=20,batch=4")) {
    const Graph graph = in_micro_batches(training(model), parts);
    for (const auto& [devices, axes] : {std::pair(3, 1), {8, 2}}) {
      SCOPED_TRACE(fmt::format("{} on {}", model, devices));
      const Cluster cluster = load_cluster("p2.8xlarge", devices);
      for (const int64_t values : {600, 1}) {  // as above
        const std::optional<JointProblem> built = joint_problem(
            {graph, cluster, Objective::kTime}, {joint_mesh(cluster, axes), {}}, {.tensor_values = values});
        ASSERT_TRUE(built);
        EXPECT_NO_THROW(validate(built->network));
        int kept = 0;
        PlainSerial serial(graph, cluster);
        for (int i = 0; i < 3; ++i) {
          const solver::Assignment drawn = random_values(*built, rng), best = with_best_homes(*built, drawn);
          auto counted = [&](const solver::Assignment& v) {
            return static_cast<double>(solver::evaluate(built->network, v).cost);
          };
          // LeNet sees unevenly split tensors in factors, and the transformer on 3 devices its heads (4 heads on 4x2
          // come out even). Lowering fetches there.
          const bool in_factors = std::string_view(model).substr(0, 5) == "lenet" ||
                                  (devices == 3 && std::string_view(model).substr(0, 3) != "mlp");
          auto summed = [&](const solver::Assignment& v) {
            const Plan plan = plan_of(*built, graph, v);
            return in_factors || parts > 1 ? static_cast<double>(serial_ns(graph, plan, cluster)) : serial.ns(plan);
          };
          const auto slack = static_cast<double>(graph.ops.size());  // each cost is whole ns
          ASSERT_EQ(solver::evaluate(built->network, drawn).forbidden, 0);
          EXPECT_GE(counted(drawn), summed(drawn) - slack);
          EXPECT_NEAR(counted(best), summed(best), slack);
          EXPECT_NO_THROW(check(graph, plan_of(*built, graph, drawn), cluster));
          EXPECT_NO_THROW(check(graph, plan_of(*built, graph, best), cluster));
          for (const auto& [tensor, placement] : plan_of(*built, graph, best).kept)
            kept += built->tensor_variable[tensor.index()] < 0;
        }
        std::printf("%s on %d: %d tensors kept on the way to their one reader\n", model, devices, kept);
      }
    }
  }
}

// The bytes that the network counts lie on the fullest device by the memory planner, in random plans and in plans under
// a limit.
TEST(Joint, WhatItCountsOfMemoryIsThere) {
  constexpr uint64_t kSeed = 14;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  for (const char* model :
       {"mlp?layers=3,width=64,batch=48", "transformer?layers=1,hidden=32,heads=4,steps=8,vocabulary=24,batch=8",
        "rnnlm?steps=3,hidden=16,vocabulary=16,batch=8", "lenet?batch=8"}) {
    const Graph graph = training(model);
    for (const auto& [devices, axes] : {std::pair(3, 1), {8, 2}}) {
      SCOPED_TRACE(fmt::format("{} on {}", model, devices));
      const Cluster cluster = load_cluster(fmt::format("local:{}", devices));
      for (const JointLimits& limits :
           {JointLimits{}, {.tensor_values = 1}, {.tensor_values = 1, .counts_copies = true}}) {
        const auto joint = joint_problem({graph, cluster}, {joint_mesh(cluster, axes), {}}, limits);
        ASSERT_TRUE(joint);
        double least = 1;
        size_t resharded = 0;
        auto counted = [&](const solver::Assignment& values) {
          return static_cast<int64_t>(*solver::evaluate(joint->network, values).peak);
        };
        auto expect_there = [&](const solver::Assignment& values) {
          const Plan plan = plan_of(*joint, graph, values);
          const std::vector<int64_t> peaks = planned_memory(graph, resolve(graph, plan, cluster), cluster).peak_bytes;
          const int64_t planned = *std::max_element(peaks.begin(), peaks.begin() + devices);
          EXPECT_LE(counted(values), planned);
          least = std::min(least, static_cast<double>(counted(values)) / static_cast<double>(planned));
          resharded += plan.resharded.size();
        };
        for (int i = 0; i < 8; ++i) expect_there(with_best_homes(*joint, random_values(*joint, rng)));
        solver::Network tight = joint->network;
        tight.limit.reset();
        for (int i = 0; i < 5; ++i) {
          solver::Options options;
          options.max_steps = 10;
          const solver::Result solved = solver::solve(tight, options);
          if (!solved.solution) break;
          expect_there(*solved.solution);
          tight.limit = counted(*solved.solution) * 9 / 10;
        }
        std::printf("%s on %d%s: at least %.0f%% of the peak, %zu refetched\n", model, devices,
                    limits.counts_copies        ? ", copies counted"
                    : limits.tensor_values == 1 ? ", layouts with variables of their own"
                                                : "",
                    100 * least, resharded);
      }
    }
  }
}

// Cut apart between its layers, a model's bound is near the known cost of the whole one, and never above it.
TEST(Joint, CutApartBetweenLayers) {
  for (const char* model :
       {"transformer?layers=8,hidden=32,heads=4,steps=8,vocabulary=32,batch=16", "mlp?layers=16,width=64",
        "gpt2?layers=6,hidden=32,heads=4,steps=8,vocabulary=32,batch=16"}) {
    SCOPED_TRACE(model);
    const Graph graph = training(model);
    const Cluster cluster = load_cluster("local:4");
    const JointProblem joint = std::move(*joint_problem({graph, cluster}, {joint_mesh(cluster, 2), {}}));
    solver::Options options;
    options.certify = false;
    options.at_once = 0;
    options.max_steps = 40;
    const solver::Result whole = solver::solve(joint.network, options);
    ASSERT_TRUE(whole.solution && whole.bound);
    options.large = 0;  // however small it is
    options.max_steps = 4;
    const solver::Result parts = solver::solve(joint.network, options);
    ASSERT_TRUE(parts.solution && parts.bound);
    EXPECT_TRUE(parts.counters.contains("different_parts"));
    EXPECT_LE(*parts.bound, whole.cost);
    EXPECT_GE(parts.cost, *whole.bound);
    EXPECT_GE(static_cast<double>(*parts.bound), 0.95 * static_cast<double>(*whole.bound));
    std::printf("%s: whole %s to %s, apart %s to %s\n", model, solver::to_string(*whole.bound).c_str(),
                solver::to_string(whole.cost).c_str(), solver::to_string(*parts.bound).c_str(),
                solver::to_string(parts.cost).c_str());
  }
}

TEST(Joint, APlanInItsValuesMovesTheSame) {  // on another mesh too
  constexpr uint64_t kSeed = 12;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  for (const char* model : {"mlp?layers=2,width=12,batch=16", "rnnlm?steps=2,hidden=8,vocabulary=8,batch=4"}) {
    SCOPED_TRACE(model);
    const Graph graph = training(model);
    const Cluster cluster = load_cluster("local:4");
    const Problem problem{graph, cluster};
    const auto one = joint_problem(problem, {joint_mesh(cluster, 1), {}}),
               two = joint_problem(problem, {joint_mesh(cluster, 2), {}});
    ASSERT_TRUE(one && two);
    for (int i = 0; i < 5; ++i)
      for (const auto& [made, on] : {std::pair(&*one, &*one), {&*two, &*two}, {&*one, &*two}}) {
        const solver::Assignment drawn = random_values(*made, rng), best = with_best_homes(*made, drawn);
        auto judged = [&](const JointProblem& joint, const Plan& p) {
          const auto values = values_of(joint, graph, p);
          EXPECT_TRUE(values);
          const int64_t checked = check(graph, p, cluster).comm_bytes;
          EXPECT_EQ(check(graph, plan_of(joint, graph, *values), cluster).comm_bytes, checked);
          EXPECT_GE(static_cast<int64_t>(solver::evaluate(joint.network, *values).cost),
                    checked);  // some shared conversions twice, if another kept layout is as good
          return *values;
        };
        const Plan plan = plan_of(*made, graph, drawn);
        const solver::Assignment values = judged(*on, plan);
        if (made != on) {
          judged(*made, plan_of(*on, graph, values));  // and back
          continue;
        }
        EXPECT_LE(solver::evaluate(on->network, values).cost, solver::evaluate(on->network, drawn).cost);
        EXPECT_EQ(solver::evaluate(on->network, judged(*on, plan_of(*on, graph, best))).cost,
                  solver::evaluate(on->network, best).cost);
      }
  }
}

TEST(Joint, APlanOutsideOfTheSpaceGivesValuesNearIt) {
  const Graph graph = training("mlp?layers=3,width=12,batch=16");
  const Cluster cluster = load_cluster("local:8");
  const Problem problem{graph, cluster};
  const auto joint = joint_problem(problem, {joint_mesh(cluster, 2), {}});
  ASSERT_TRUE(joint);
  EXPECT_FALSE(values_of(*joint, graph, single_plan(graph, cluster)));
  const Plan data_parallel = data_parallel_plan(graph, cluster);  // replicated updates are not in the space
  const auto values = values_of(*joint, graph, data_parallel);
  ASSERT_TRUE(values);
  EXPECT_EQ(solver::evaluate(joint->network, *values).forbidden, 0);
  const Plan near = plan_of(*joint, graph, *values);
  for (size_t i = 0; i < graph.ops.size(); ++i)
    if (const tdl::AxisStrategy& s = data_parallel.ops[i].strategies[0]; !s.replicate()) {
      EXPECT_EQ(near.ops[i].strategies, (std::vector<tdl::AxisStrategy>{s, s})) << graph.ops[i].name;
    }
}

}  // namespace
}  // namespace partita
