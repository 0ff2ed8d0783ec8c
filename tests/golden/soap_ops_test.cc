// Tests FlexFlow's space in which every op is a unit: the configurations of an op, and that plans of units are among
// its plans.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

#include "partita/base/error.h"
#include "partita/models/testing/training.h"
#include "partita/plan/check.h"
#include "partita/search/all/search_text.h"
#include "partita/search/soap/initial_plans.h"
#include "partita/search/soap/simulated_proposals.h"
#include "partita/search/soap/units_of_ops.h"
#include "tests/golden/soap_draws.h"

namespace partita {
namespace {

// A line for each op: its indices, and how many configurations it has on 4 devices.
std::string text_of(const Graph& graph) {
  std::string text;
  for (const SoapUnit& unit : units_of_single_ops(graph, soap_units(graph))) {
    const Op& op = graph.op(unit.leader);
    text += op.name;
    for (size_t d = 0; d < unit.indices.size(); ++d)
      text += unit.indices[d] == kSoapCopies
                  ? " copies"
                  : fmt::format(" {}:{}", op.bound->indices[static_cast<size_t>(unit.indices[d])].name,
                                name_of(unit.dimensions[d]));
    text += fmt::format(" {}\n", soap_set(graph, unit, slowest_link_first(load_cluster("local:4")), {}).size());
  }
  return text;
}

TEST(SoapOps, OfDenseLayers) {
  EXPECT_EQ(text_of(training("mlp?layers=2,width=8,batch=16")), R"(fc1 n.0:sample o:parameter 15
tanh1 i.0:sample i.1:parameter 15
fc2 n.0:sample o:parameter 15
loss b.0:sample 9
loss.grad.x b.0:sample j:attribute 15
fc2.grad.x n.0:sample o:parameter k:parameter 22
fc2.grad.w n.0:sample o:parameter k:attribute 22
fc2.grad.b n.0:sample o:parameter 15
tanh1.grad.x i.0:sample i.1:parameter 15
fc1.grad.w n.0:sample o:parameter k:attribute 22
fc1.grad.b n.0:sample o:parameter 15
fc1.weight.update copies i.1:parameter i.0:parameter 22
fc1.bias.update copies i.0:parameter 15
fc2.weight.update copies i.1:parameter i.0:parameter 22
fc2.bias.update copies i.0:parameter 15
)");
}

TEST(SoapOps, OfAConvolution) {
  EXPECT_EQ(text_of(training("cnn?layers=1,image=6,filters=4,batch=8,loss=cross_entropy")),
            R"(conv1 y:attribute z:attribute n:sample o:parameter 28
pool y:attribute z:attribute n:sample c:attribute 15
pool.flatten copies i0:sample i1:attribute 22
loss b.0:sample 9
loss.grad.x b.0:sample j:attribute 15
pool.flatten.grad.x copies i0:sample i1:attribute 22
pool.grad.x y:attribute z:attribute n:sample c:attribute r:attribute t:attribute 28
conv1.grad.w y:attribute z:attribute n:sample o:parameter c:attribute r:attribute t:attribute 37
conv1.weight.update copies i.0:parameter i.1:parameter i.2:parameter i.3:parameter 22
)");
}

// Each configuration is there once, also if two places have copies.
TEST(SoapOps, SetsHaveEachChoiceOnce) {
  for (const char* model : kSoapModels) {
    const Graph graph = training(fmt::format("{},batch=12", model));
    UnitChoices choices(graph);
    for (const SoapUnit& unit : units_of_single_ops(graph, soap_units(graph))) {
      const SoapSet set = soap_set(graph, unit, slowest_link_first(load_cluster("local:4")), {});
      std::set<SoapConfiguration> seen;
      for (int64_t i = 0; i < set.size(); ++i)
        EXPECT_TRUE(seen.insert(set.at(i)).second) << model << ": " << graph.op(unit.leader).name;
    }
  }
}

// Copies go with any split. If nothing may be split, an op is whole.
TEST(SoapOps, AreDrawnFromTheDimensionsThatAreAsked) {
  const Graph graph = training("mlp?layers=2,width=8,batch=16");
  const std::vector<DeviceId> devices = slowest_link_first(load_cluster("local:4"));
  const std::vector<SoapUnit> ops = units_of_single_ops(graph, soap_units(graph));
  const auto size = [&](const char* op, const char* dimensions) {
    return soap_set(graph, ops[graph.find_op(op).index()], devices, parse_soap_dimensions(dimensions)).size();
  };
  // An op with one open index splits it in 1, 2 or 4 shards; with two, in six ways.
  for (const auto& [op, s, o, p, sap] :
       {std::tuple("fc1", 3, 4, 3, 6), {"fc1.grad.w", 3, 4, 3, 10}, {"fc1.weight.update", 3, 4, 10, 10}}) {
    EXPECT_EQ(size(op, "s"), s) << op;
    EXPECT_EQ(size(op, "o"), o) << op;
    EXPECT_EQ(size(op, "p"), p) << op;
    EXPECT_EQ(size(op, "sap"), sap) << op;
  }
}

// The embedding of plans of units in the space of ops.
struct Embedded {
  int plans = 0, ops = 0;
  int missing = 0;  // ops whose configuration is not in their set
  int merged = 0;   // plans with ops that have copies along one mesh axis there, and along several in their unit
};

bool is_exact(const Graph& graph, const SoapSpace& space, const std::vector<SoapConfiguration>& plan,
              const std::vector<int64_t>& numbers) {
  UnitChoices choices(graph);
  bool exact = true;
  for (size_t u = 0; u < plan.size(); ++u) {
    const SoapUnit& unit = space.whole().units[u];
    const std::vector<OpChoice> of_unit = choices.of(unit, plan[u]);
    for (size_t i = 0; i < of_unit.size(); ++i) {
      const size_t op = unit.ops[i].index();
      const OpChoice of_op = choices.of(space.units[op], space.sets[op].at(numbers[op]))[0];
      exact &= of_op == of_unit[i];
    }
  }
  return exact;
}

// The plan of units in the space of ops takes as long there.
void expect_in_space(const Graph& graph, const SoapSpace& space, const std::vector<SoapConfiguration>& plan,
                     SoapTasks& of_units, SoapTasks& of_ops, Embedded& out) {
  const SoapSpace& whole = space.whole();
  std::vector<std::pair<int, int64_t>> units, ops;
  for (size_t u = 0; u < plan.size(); ++u) {
    units.emplace_back(static_cast<int>(u), number_of(whole.sets[u], plan[u]));
    for (size_t i = 0; i < whole.units[u].ops.size(); ++i) {
      const size_t op = whole.units[u].ops[i].index();
      out.missing += number_of(space.sets[op], configuration_of_op(whole.units[u], i, space.units[op], plan[u])) < 0;
    }
  }
  const std::vector<int64_t> numbers = numbers_of(space, plan);
  for (size_t i = 0; i < numbers.size(); ++i) ops.emplace_back(static_cast<int>(i), numbers[i]);
  ProposalSimulator simulator_of_units(SoapSimulator::kFull, of_units), simulator_of_ops(SoapSimulator::kFull, of_ops);
  const auto ns_of_units = static_cast<double>(*simulator_of_units.ns(of_units.propose(units)));
  const auto ns_of_ops = static_cast<double>(*simulator_of_ops.ns(of_ops.propose(ops)));
  const bool exact = is_exact(graph, space, plan, numbers);
  EXPECT_NEAR(ns_of_ops / ns_of_units, 1, exact ? 0 : 0.05);
  ++out.plans;
  out.ops += static_cast<int>(graph.ops.size());
  out.merged += !exact;
}

TEST(SoapOps, HavePlansOfUnits) {
  constexpr uint64_t kSeed = 36;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  for (const char* model : kSoapModels)
    for (const int devices : {2, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} on {} devices", model, devices));
      const Graph graph = training(fmt::format("{},batch=12", model));
      const Cluster cluster = load_cluster("flexflow-p100", devices);
      const Problem problem{.graph = graph, .cluster = cluster};
      const CostModel cost(cluster);
      const SoapSpace space = soap_space(problem, {}, SoapGranularity::kOp);
      const std::vector<SoapUnit>& units = space.whole().units;
      SoapTasks of_units(problem, cost, space.whole()), of_ops(problem, cost, space);
      Embedded starts, drawn;
      for (const auto& start :
           {data_parallel_configurations(graph, cluster, units), expert_configurations(graph, cluster, units)})
        expect_in_space(graph, space, start, of_units, of_ops, starts);
      for (int i = 0; i < 5; ++i)
        expect_in_space(graph, space, random_configurations(space.whole().sets, rng), of_units, of_ops, drawn);
      std::printf("%s on %d devices: of drawn plans %d of %d ops have none, %d of %d plans have other meshes\n", model,
                  devices, drawn.missing, drawn.ops, drawn.merged, drawn.plans);
      EXPECT_EQ(starts.missing, 0);
      EXPECT_EQ(starts.merged, 0);
      EXPECT_LT(50 * drawn.missing, drawn.ops);
    }
}

TEST(SoapOps, AreAskedForByName) {
  const SearchChoice choice = parse_search("soap?granularity=op");
  EXPECT_EQ(text_of(choice), "soap?granularity=op");
  EXPECT_EQ(parse_search("flexflow?granularity=unit").options.at("granularity"), "unit");
  for (const char* search : {"flexflow?granularity=layer", "soap?granularity=layer"}) try {
      parse_search(search);
      FAIL() << search;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_NE(std::string(error.what()).find("is unit or op"), std::string::npos) << error.what();
    }
}

// If every op chooses by itself, the plan is no worse, and one seed gives one plan.
TEST(SoapOps, SearchesGoOnFromWholeUnits) {
  for (const char* model :
       {"mlp?layers=3,width=256,batch=64", "rnnlm?steps=3,layers=1,hidden=64,vocabulary=48,batch=16"}) {
    const Graph graph = training(model);
    const Cluster cluster = load_cluster("flexflow-p100", 4);
    const auto found = [&](const char* search, int64_t steps) {
      const SearchChoice choice = parse_search(search);
      Problem problem{.graph = graph, .cluster = cluster};
      problem.objective = Objective::kTime;
      problem.options = choice.options;
      Budget budget;
      budget.steps = steps;
      Rng rng(1);
      return choice.entry->search(problem, budget, rng);
    };
    const SearchResult units = found("soap?bound=no", 4'000), ops = found("soap?granularity=op,bound=no", 8'000);
    ASSERT_TRUE(units.plan && ops.plan);
    std::printf("%s: %ld ns by units, %ld by ops\n", model, static_cast<long>(*units.local_ns),
                static_cast<long>(*ops.local_ns));
    EXPECT_EQ(ops.counters.at("units"), static_cast<double>(graph.ops.size()));
    EXPECT_LE(*ops.local_ns, *units.local_ns * 1.01);
    check(graph, *ops.plan, cluster);
    EXPECT_EQ(*ops.plan, *found("soap?granularity=op,bound=no", 8'000).plan);
    for (size_t i = 1; i < ops.trail.size(); ++i) {
      EXPECT_LT(ops.trail[i].cost, ops.trail[i - 1].cost);
      EXPECT_GE(ops.trail[i].proposals, ops.trail[i - 1].proposals);
    }
    const SearchResult chains = found("flexflow?granularity=op,bound=no,check=yes", 4'000);
    ASSERT_TRUE(chains.plan);
    check(graph, *chains.plan, cluster);
    EXPECT_GT(chains.counters.at("changes_looked_at"), 5.0 * static_cast<double>(graph.ops.size()));
  }
}

}  // namespace
}  // namespace partita
