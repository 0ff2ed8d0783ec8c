// Tests that the bound of a SOAP space is below the simulated time of every plan, for all plans of small spaces and for
// drawn ones. Its terms are below those of plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "partita/base/error.h"
#include "partita/models/testing/training.h"
#include "partita/search/all/search_text.h"
#include "partita/search/evaluate.h"
#include "partita/search/soap/bound.h"
#include "partita/search/soap/bound_tables.h"
#include "partita/search/soap/optimum.h"
#include "partita/search/soap/simulated_proposals.h"
#include "tests/golden/direct_cluster.h"

namespace partita {
namespace {

Problem in_time(const Graph& graph, const Cluster& cluster) {
  Problem problem{.graph = graph, .cluster = cluster};
  problem.objective = Objective::kTime;
  return problem;
}

std::vector<std::pair<int, int64_t>> units_of(const std::vector<int64_t>& numbers) {
  std::vector<std::pair<int, int64_t>> units;
  for (size_t u = 0; u < numbers.size(); ++u) units.emplace_back(static_cast<int>(u), numbers[u]);
  return units;
}

// The least time of all plans, each simulated as a change of few units from the one before. `fitting`: of those that
// fit.
int64_t least_of_all(const Problem& problem, const SoapSpace& space, const CostModel& cost, bool fitting = false) {
  SoapTasks tasks(problem, cost, space);
  ProposalSimulator simulator(SoapSimulator::kReplay, tasks);
  std::vector<int64_t> numbers(space.units.size(), 0);
  int64_t best = std::numeric_limits<int64_t>::max();
  const auto look = [&](int64_t ns) {
    if (ns < best && (!fitting || memory_deficit(problem, tasks.plan(numbers, "all")) <= 0)) best = ns;
  };
  look(*simulator.ns(tasks.propose(units_of(numbers))));
  for (;;) {
    std::vector<std::pair<int, int64_t>> changed;
    size_t u = numbers.size();
    while (u-- > 0) {
      numbers[u] = (numbers[u] + 1) % space.sets[u].size();
      changed.emplace_back(static_cast<int>(u), numbers[u]);
      if (numbers[u] > 0) break;
    }
    if (u > numbers.size()) return best;
    const auto ns = simulator.ns(tasks.propose(changed));
    tasks.keep();
    simulator.keep();
    look(*ns);
  }
}

KindLoads loads_of(const SoapParts& parts, const TaskGraph& graph) {
  KindLoads sums(parts.kinds().size(), 0);
  for (const FragmentPtr& fragment : graph.fragments)
    for (const auto& [queue, ns] : fragment->load_ns) sums[static_cast<size_t>(parts.kind_of(queue))] += ns;
  return sums;
}

int class_of(const SoapParts& parts, int unit, int64_t number) {
  const std::vector<SoapClass>& classes = parts.classes(unit);
  for (size_t c = 0; c < classes.size(); ++c)
    if (std::ranges::find(classes[c].numbers, number) != classes[c].numbers.end()) return static_cast<int>(c);
  return -1;
}

const std::vector<SoapPiece>& pieces_of(SoapParts& parts, size_t shared, const std::vector<int64_t>& numbers) {
  const SoapShared& of = parts.shared_tensors()[shared];
  return parts.pieces(shared, class_of(parts, of.a, numbers[static_cast<size_t>(of.a)]),
                      class_of(parts, of.b, numbers[static_cast<size_t>(of.b)]));
}

// The least load between units, of each kind by itself.
KindLoads certain_loads(SoapParts& parts, const std::vector<int64_t>& numbers) {
  KindLoads sums(parts.kinds().size(), 0);
  for (size_t u = 0; u < numbers.size(); ++u) {
    const KindLoads& own = parts.own(static_cast<int>(u), numbers[u]);
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += own[k];
  }
  for (size_t s = 0; s < parts.shared_tensors().size(); ++s)
    for (size_t k = 0; k < sums.size(); ++k) {
      int64_t least = INT64_MAX;
      for (const SoapPiece& piece : pieces_of(parts, s, numbers)) least = std::min(least, piece.loads[k]);
      sums[k] += least / parts.shared_tensors()[s].of;
    }
  return sums;
}

int64_t length_of(const Graph& graph, SoapParts& parts, const SoapPath& path, const std::vector<int64_t>& numbers) {
  int64_t ns = 0;
  for (const SoapPath::Step& step : path.steps) {
    const int unit = parts.unit_of(step.op);
    const int64_t number = numbers[static_cast<size_t>(unit)];
    ns += parts.step_ns(step.op, number, step.operand, step.result);
    if (step.operand < 0) continue;
    const TensorId t = graph.op(step.op).operands[static_cast<size_t>(step.operand)];
    if (parts.producer_unit_of(t) == unit) ns += parts.edge_ns(step.op, number, step.operand);
    for (size_t s = 0; s < parts.shared_tensors().size(); ++s) {
      const SoapShared& of = parts.shared_tensors()[s];
      const auto edge = std::ranges::find(of.edges, std::pair{step.op, step.operand});
      if (of.tensor != t || of.b != unit || edge == of.edges.end()) continue;
      int64_t least = INT64_MAX;
      for (const SoapPiece& piece : pieces_of(parts, s, numbers))
        least = std::min(least, piece.edges_ns[static_cast<size_t>(edge - of.edges.begin())]);
      EXPECT_GE(least, 0) << graph.op(step.op).name;
      ns += least;
    }
  }
  return ns;
}

struct Case {
  const char* model;
  const char* cluster;
  int devices;
  double part;  // of the least time, at least
  SoapGranularity granularity = SoapGranularity::kUnit;
  bool direct = false;  // exchanges
};

TEST(SoapBound, IsBelowEveryPlanOfSmallSpaces) {
  for (const Case& of : {Case{"mlp?layers=2,width=64,batch=32", "flexflow-p100", 2, 0.6},
                         Case{"mlp?layers=2,width=2048,batch=256", "flexflow-p100", 4, 0.4},
                         Case{"mlp?layers=2,width=64,batch=32", "flexflow-k80", 4, 0.5},
                         Case{"cnn?layers=2,image=12,filters=16,batch=8", "flexflow-k80", 2, 0.5},
                         Case{"cnn?layers=1,image=12,filters=16,batch=8", "flexflow-p100", 4, 0.5},
                         Case{"rnnlm?steps=1,layers=1,hidden=64,vocabulary=128,batch=8", "flexflow-p100", 4, 0.5},
                         Case{"rnnlm?steps=2,layers=1,hidden=64,vocabulary=128,batch=8", "flexflow-k80", 2, 0.5},
                         Case{"mlp?layers=1,width=64,batch=32", "flexflow-p100", 2, 0.3, SoapGranularity::kOp},
                         Case{"mlp?layers=2,width=512,batch=64", "flexflow-k80", 4, 0.4, SoapGranularity::kUnit, true},
                         Case{"mlp?layers=2,width=512,batch=64", "p2.8xlarge", 4, 0.4, SoapGranularity::kUnit, true}}) {
    const Graph graph = training(of.model);
    const Cluster cluster = of.direct ? direct_cluster(of.cluster, of.devices) : load_cluster(of.cluster, of.devices);
    const Problem problem = in_time(graph, cluster);
    const CostModel cost(cluster);
    const SoapSpace space = soap_space(problem, {}, of.granularity);
    double plans = 1;
    for (const SoapSet& set : space.sets) plans *= static_cast<double>(set.size());
    std::printf("%s on %d of %s: %zu units, %.0f plans\n", of.model, of.devices, of.cluster, space.units.size(), plans);
    ASSERT_LT(plans, 200'000);
    const SoapBound bound = soap_bound(problem, space, cost);
    const int64_t least = least_of_all(problem, space, cost);
    std::printf("  least %ld ns; %s\n", static_cast<long>(least), to_string(bound, least).c_str());
    EXPECT_LE(bound.ns, least) << of.model;
    EXPECT_GE(static_cast<double>(bound.ns), of.part * static_cast<double>(least)) << of.model;
    EXPECT_GE(check_soap_bound(problem, space, cost, bound), bound.ns);
    EXPECT_LE(check_soap_bound(problem, space, cost, bound), least) << of.model;
    const SoapOptimum best = soap_optimum(problem, space, cost, INT64_MAX);
    std::printf("  branch and bound: %ld nodes, %ld simulated\n", static_cast<long>(best.nodes),
                static_cast<long>(best.simulated));
    EXPECT_TRUE(best.proved);
    EXPECT_EQ(best.ns, least) << of.model;
    EXPECT_LT(static_cast<double>(best.simulated), plans);
  }
}

// The plan of `soap?exact=yes` is the best, and it says so.
void expect_optimum(const std::string& model, const Cluster& cluster, const std::string& search,
                    SoapGranularity granularity) {
  const Graph graph = training(model);
  Problem problem = in_time(graph, cluster);
  const CostModel cost(cluster);
  const int64_t least = least_of_all(problem, soap_space(problem, {}, granularity), cost, true);
  const SearchChoice choice = parse_search(search);
  problem.options = choice.options;
  Budget budget;
  budget.steps = 1;
  Rng rng(1);
  const SearchResult result = choice.entry->search(problem, budget, rng);
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(*result.plan->paper_cost, static_cast<double>(least) / 1e3) << search;
  const auto says = [&](const char* text) {
    return std::ranges::any_of(result.notes, [&](const std::string& n) { return n.find(text) != std::string::npos; });
  };
  EXPECT_TRUE(says("no plan of the space takes less")) << search;
  EXPECT_TRUE(says("lower bound")) << search;
  ASSERT_TRUE(result.local_lower_bound_ns) << search;
  EXPECT_LE(*result.local_lower_bound_ns, least) << search;
}

TEST(SoapOptimum, IsWhatSoapReturnsWhereAsked) {
  expect_optimum("mlp?layers=2,width=64,batch=32", load_cluster("flexflow-k80", 4), "soap?exact=yes",
                 SoapGranularity::kUnit);
  expect_optimum("mlp?layers=1,width=64,batch=32", load_cluster("flexflow-p100", 2), "soap?exact=yes,granularity=op",
                 SoapGranularity::kOp);
}

// With a byte less than the best of all plans needs.
TEST(SoapOptimum, IsOfPlansThatFit) {
  const char* const model = "mlp?layers=2,width=256,batch=16";
  const Graph graph = training(model);
  Cluster cluster = load_cluster("flexflow-p100", 2);
  Problem problem = in_time(graph, cluster);
  const CostModel cost(cluster);
  const SoapSpace space = soap_space(problem, {});
  const SoapOptimum best = soap_optimum(problem, space, cost, INT64_MAX);
  const SoapTasks tasks(problem, cost, space);
  const int64_t room = -memory_deficit(problem, tasks.plan(best.numbers, "exact"));
  for (Device& device : cluster.devices) device.memory_bytes -= room + 1;
  EXPECT_GT(least_of_all(problem, space, cost, true), best.ns);
  expect_optimum(model, cluster, "soap?exact=yes", SoapGranularity::kUnit);
}

// If the watch ends, nothing is claimed.
TEST(SoapOptimum, IsNotProvedWithoutTime) {
  const Graph graph = training("mlp?layers=2,width=64,batch=32");
  const Cluster cluster = load_cluster("flexflow-k80", 4);
  const Problem problem = in_time(graph, cluster);
  const CostModel cost(cluster);
  const SoapSpace space = soap_space(problem, {});
  const Watch watch{.deadline = Watch::Clock::now()};
  EXPECT_FALSE(soap_optimum(problem, space, cost, 1'000'000'000, watch).proved);
  EXPECT_EQ(soap_bound(problem, space, cost, {}, watch).ns, 0);
}

// The certain loads and paths are no more than those of drawn plans.
void check_drawn_plans(const std::string& model, const Cluster& cluster, SoapGranularity granularity, int plans,
                       Rng& rng) {
  const Graph graph = training(model);
  const Problem problem = in_time(graph, cluster);
  const CostModel cost(cluster);
  const SoapSpace space = soap_space(problem, {}, granularity);
  const SoapBound bound = soap_bound(problem, space, cost, {.rounds = 20});
  ASSERT_GT(bound.ns, 0);
  SoapParts parts(problem, cost, space);
  SoapTasks tasks(problem, cost, space);
  ProposalSimulator simulator(SoapSimulator::kFull, tasks);
  for (int i = 0; i < plans; ++i) {
    std::vector<int64_t> numbers;
    const int64_t same = static_cast<int64_t>(rng.below(1000));
    for (const SoapSet& set : space.sets)  // every other plan has like units alike, and less between them
      numbers.push_back(i % 2 == 0 ? same % set.size()
                                   : static_cast<int64_t>(rng.below(static_cast<uint64_t>(set.size()))));
    const int64_t ns = *simulator.ns(tasks.propose(units_of(numbers)));
    tasks.keep();
    simulator.keep();
    EXPECT_GE(ns, bound.ns) << model << ", plan " << i;
    const KindLoads taken = loads_of(parts, tasks.graph());
    const KindLoads certain = certain_loads(parts, numbers);
    for (size_t k = 0; k < taken.size(); ++k) EXPECT_LE(certain[k], taken[k]) << model << ": " << parts.kinds()[k].name;
    for (const SoapPath& path : bound.paths) EXPECT_LE(length_of(graph, parts, path, numbers), ns) << model;
  }
}

TEST(SoapBound, IsOfPartsThatEveryPlanHas) {
  constexpr uint64_t kSeed = 36;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  for (const char* model :
       {"alexnet?image=67,classes=12,hidden=96,batch=16", "inception-v3?image=75,blocks=1,classes=6,batch=8",
        "resnet-101?image=32,classes=6,batch=8,blocks=1", "rnnlm?steps=3,layers=2,hidden=12,vocabulary=24,batch=8",
        "rnntc?steps=3,layers=2,hidden=12,vocabulary=24,batch=8",
        "nmt?steps=3,layers=2,hidden=12,vocabulary=24,batch=8"})
    for (const auto& [cluster, devices] : {std::pair{"flexflow-p100", 4}, std::pair{"flexflow-k80", 8}})
      check_drawn_plans(model, load_cluster(cluster, devices), SoapGranularity::kUnit, 10, rng);
  for (const char* model : {"mlp?layers=3,width=64,batch=32", "rnnlm?steps=2,layers=1,hidden=12,vocabulary=24,batch=8",
                            "cnn?layers=2,image=12,filters=16,batch=8"})
    check_drawn_plans(model, load_cluster("flexflow-p100", 4), SoapGranularity::kOp, 10, rng);
}

// The printed figures hold too: the bound is rounded down, the factor up.
TEST(SoapBound, IsPrintedSoThatItHolds) {
  SoapBound bound{.ns = 9'648'999, .loads = {{"compute", 4, 227'500}}, .paths = {{{}, 90'000}}};
  bound.seconds = 0.3;
  EXPECT_EQ(to_string(bound, 12'551'000),
            "lower bound 9.64 ms for every plan of the space (equal parts), by the local task graph: the best found is "
            "within 1.31 x; weights: compute 0.91, paths 0.09; 0.3 s");
  for (const auto& [ns, text] :
       {std::pair<int64_t, const char*>{999'999, "999 us"}, {1'009'999, "1.00 ms"}, {7, "7 ns"}}) {
    bound.ns = ns;
    EXPECT_TRUE(to_string(bound, ns).starts_with(fmt::format("lower bound {} for", text))) << to_string(bound, ns);
  }
}

// A search ends with the plan that is near enough, after fewer proposals than it has.
TEST(SoapBound, EndsASearchThatIsNearEnough) {
  const Graph graph = training("mlp?layers=3,width=64,batch=32");
  const Cluster cluster = load_cluster("flexflow-p100", 4);
  for (const char* search : {"soap", "flexflow"}) {
    const SearchChoice choice = parse_search(search);
    Problem problem = in_time(graph, cluster);
    problem.options = choice.options;
    Budget budget;
    budget.steps = 3000;
    const auto proposals = [&](double gap) {
      budget.gap = gap;
      Rng rng(1);
      const SearchResult result = choice.entry->search(problem, budget, rng);
      EXPECT_TRUE(result.plan);
      return result.counters.at("proposals");
    };
    EXPECT_LT(proposals(0.9), proposals(0) / 2) << search;
  }
}

TEST(SoapBound, SaysWhyThereIsNone) {
  const Graph graph = training("mlp?layers=2,width=64,batch=32");
  const Cluster cluster = load_cluster("flexflow-p100", 4);
  Problem problem = in_time(graph, cluster);
  const CostModel cost(cluster);
  const SoapSpace space = soap_space(problem, {});
  const std::string large = to_string(soap_bound(problem, space, cost, {.work = 7}), 1);
  EXPECT_TRUE(large.starts_with("no lower bound: the ops of different units have ")) << large;
  EXPECT_TRUE(large.ends_with(" configurations, over 7")) << large;
  const Watch ended{.deadline = Watch::Clock::now()};
  problem.options = {{"bound", "quick"}};
  EXPECT_EQ(to_string(asked_bound(problem, space, cost, ended), 1),
            "no lower bound: the time that it had has passed; bound=full takes what time it needs");
  problem.options = {{"bound", "full"}};
  EXPECT_EQ(to_string(asked_bound(problem, space, cost, ended), 1), "no lower bound: the time that it had has passed");
}

TEST(SoapBound, IsNotBelievedWithWeightsOrCertificatesOfOthers) {
  const Graph graph = training("mlp?layers=2,width=64,batch=32");
  const Cluster cluster = load_cluster("flexflow-p100", 4);
  const Problem problem = in_time(graph, cluster);
  const CostModel cost(cluster);
  const SoapSpace space = soap_space(problem, {});
  SoapBound bound = soap_bound(problem, space, cost);
  ASSERT_FALSE(bound.paths.empty());
  bound.ns += bound.ns / 2;
  EXPECT_THROW(check_soap_bound(problem, space, cost, bound), Error);  // more than it proves
  bound.ns = 1;
  bound.paths[0].weight += kSoapBoundParts;
  EXPECT_THROW(check_soap_bound(problem, space, cost, bound), Error);  // weights above 1
}

}  // namespace
}  // namespace partita
