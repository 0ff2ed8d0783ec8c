// Tests plans in the order in which ops begin in the local task graph: the lowered step is shorter with inter-op
// parallelism.
#include <gtest/gtest.h>

#include <cstdio>

#include "partita/models/testing/training.h"
#include "partita/plan/check.h"
#include "partita/plan/rule_planner.h"
#include "partita/search/evaluate.h"
#include "partita/search/soap/initial_plans.h"
#include "partita/search/soap/op_order.h"
#include "partita/task_graph/local_tasks.h"
#include "tests/golden/soap_draws.h"

namespace partita {
namespace {

int64_t step_ns(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  return cost_of({.graph = graph, .cluster = cluster, .objective = Objective::kTime}, plan);
}

TaskGraph tasks_of(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  const CostModel cost(cluster);
  LocalTasks tasks(graph, cost);
  return local_task_graph(graph, plan, tasks);
}

Plan better(const Graph& graph, const Plan& plan, const Cluster& cluster, bool fits_in_any, const Watch& watch = {}) {
  return with_better_order({.graph = graph, .cluster = cluster}, plan, tasks_of(graph, plan, cluster), fits_in_any,
                           watch)
      .plan;
}

// Layers on different devices: the first time steps of the second are between the last ones of the first. In the
// graph's order they come after them.
TEST(SoapOrder, IsByWhenOpsBegin) {
  const Graph graph = training("rnnlm?steps=4,layers=2,hidden=512,vocabulary=64,batch=64");
  const Cluster cluster = load_cluster("flexflow-p100", 4);
  const std::vector<SoapUnit> units = soap_units(graph);
  const Plan plan = soap_plan(graph, cluster, units, expert_configurations(graph, cluster, units), "expert");
  const std::vector<OpId> order = first_come_order(graph, tasks_of(graph, plan, cluster));
  std::vector<size_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i].index()] = i;
  const auto place_of = [&](const char* name) { return place[graph.find_op(name).index()]; };
  EXPECT_LT(place_of("rnn_l0.0"), place_of("rnn_l1.0.gates"));
  EXPECT_LT(place_of("rnn_l1.0.gates"), place_of("rnn_l0.3.gates"));
  EXPECT_GT(graph.find_op("rnn_l1.0.gates").value, graph.find_op("rnn_l0.3.gates").value);
}

// If there is no time to find out, a plan is in its order if that is certain to fit.
TEST(SoapOrder, IsTakenUnseenWhereTimeIsOver) {
  const Graph graph = training("rnnlm?steps=3,layers=2,hidden=12,vocabulary=24,batch=12");
  const Cluster cluster = load_cluster("flexflow-p100", 4);
  const std::vector<SoapUnit> units = soap_units(graph);
  const Plan plan = soap_plan(graph, cluster, units, expert_configurations(graph, cluster, units), "expert");
  Watch ended;
  ended.deadline = Watch::Clock::now() - std::chrono::seconds(1);
  EXPECT_FALSE(better(graph, plan, cluster, true, ended).order.empty());
  EXPECT_TRUE(better(graph, plan, cluster, false, ended).order.empty());
  const Plan alike = data_parallel_plan(graph, cluster);  // all devices do the same
  EXPECT_TRUE(better(graph, alike, cluster, true, ended).order.empty());
}

// The checker takes it, and it is chosen if the lowered step is shorter.
TEST(SoapOrder, IsTakenWhereTheStepIsShorter) {
  constexpr uint64_t kSeed = 5;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Rng rng(kSeed);
  int shorter = 0, plans = 0;
  for (const char* model : kSoapModels)
    for (const int devices : {3, 8}) {
      const Graph graph = training(std::string(model) + ",batch=12");
      const Cluster cluster = load_cluster("flexflow-p100", devices);
      const std::vector<SoapUnit> units = soap_units(graph);
      std::vector<SoapConfiguration> drawn;
      for (const SoapUnit& unit : units)
        drawn.push_back(any_configuration(*graph.op(unit.leader).bound, unit, slowest_link_first(cluster), rng));
      Plan plan = soap_plan(graph, cluster, units, drawn, "drawn");
      const Plan chosen = better(graph, plan, cluster, false);
      plan.order = first_come_order(graph, tasks_of(graph, plan, cluster));
      check(graph, plan, cluster);
      const int64_t ordered_ns = step_ns(graph, plan, cluster);
      plan.order.clear();
      const int64_t plain_ns = step_ns(graph, plan, cluster);
      EXPECT_EQ(chosen.order.empty(), static_cast<double>(ordered_ns) >= 0.995 * static_cast<double>(plain_ns));
      std::printf("%s, %d devices: %.3f ms, in order %.3f ms\n", model, devices, static_cast<double>(plain_ns) / 1e6,
                  static_cast<double>(ordered_ns) / 1e6);
      shorter += !chosen.order.empty();
      ++plans;
    }
  EXPECT_GT(2 * shorter, plans);
}

}  // namespace
}  // namespace partita
