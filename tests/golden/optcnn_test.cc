// Compares OptCNN's sum with the isolated costs of its plan, and its least value with that of all plans.
#include "partita/search/soap/optcnn.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

#include "partita/base/error.h"
#include "partita/cost/isolated_costs.h"
#include "partita/models/testing/training.h"
#include "partita/plan/check.h"
#include "partita/search/soap/initial_plans.h"

namespace partita {
namespace {

using Configurations = std::vector<std::vector<SoapConfiguration>>;

Configurations all_of(const Graph& graph, const Cluster& cluster, const std::vector<SoapUnit>& units,
                      const AllowedSoapDimensions& dimensions) {
  Configurations out;
  for (const SoapUnit& unit : units) {
    const SoapSet set = soap_set(graph, unit, slowest_link_first(cluster), dimensions);
    out.emplace_back();
    for (int64_t i = 0; i < set.size(); ++i) out.back().push_back(set.at(i));
  }
  return out;
}

// The isolated costs of a plan, op by op and tensor by tensor; loads and outputs apart.
struct Parts {
  int64_t ns = 0, with_hosts_ns = 0;
};
Parts parts_of(const Graph& graph, const Cluster& cluster, const std::vector<SoapUnit>& units, const Plan& plan) {
  const Resolved resolved = resolve(graph, plan, cluster);
  const CostModel cost(cluster);
  ConversionTimes times(cluster);
  Parts parts;
  std::vector<size_t> unit_of(graph.ops.size());
  for (size_t u = 0; u < units.size(); ++u)
    for (const OpId id : units[u].ops) unit_of[id.index()] = u;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const ResolvedOp& at = resolved.ops[i];
    parts.ns += kernels_ns(cost, graph, op, *at.derived, at.mesh) +
                times.inner_ns(*op.bound, *at.derived, at.mesh, bytes_of(inner_dtype(graph, op)));
  }
  const std::vector<std::vector<Reader>> read_by = readers_by_tensor(graph);
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const Tensor& tensor = graph.tensors[t];
    const Layout& kept_layout = resolved.kept_layouts[t];
    const int64_t bytes = bytes_of(tensor.dtype);
    if (tensor.producer.valid()) {
      const std::vector<TensorId>& results = graph.op(tensor.producer).results;
      const auto r = std::ranges::find(results, TensorId(t)) - results.begin();
      parts.ns +=
          times.ns(resolved.ops[tensor.producer.index()].layouts.results[static_cast<size_t>(r)], kept_layout, bytes);
    }
    std::vector<std::pair<size_t, const Layout*>> made;
    for (const Reader& reader : read_by[t]) {
      const size_t unit = unit_of[reader.op.index()];
      const Layout& need = resolved.ops[reader.op.index()].layouts.operands[static_cast<size_t>(reader.operand)];
      if (same_placement(kept_layout, need) || std::ranges::any_of(made, [&](const auto& other) {
            return other.first == unit && same_placement(*other.second, need);
          }))
        continue;
      made.push_back({unit, &need});
      parts.ns += times.ns(kept_layout, need, bytes);
    }
    if (tensor.role == Role::kInput) parts.with_hosts_ns += times.load_ns(kept_layout, bytes);
  }
  for (const TensorId t : graph.outputs)
    parts.with_hosts_ns += times.give_ns(resolved.kept_layouts[t.index()], bytes_of(graph.tensor(t).dtype));
  return parts;
}

const char* const kNetworks[] = {"alexnet?image=67,hidden=96,classes=12,batch=16",
                                 "inception-v3?image=75,blocks=2,classes=6,batch=8",
                                 "resnet-101?image=32,blocks=1,width=16,classes=8,batch=16",
                                 "rnntc?steps=3,layers=2,hidden=16,vocabulary=20,classes=4,batch=8",
                                 "rnnlm?steps=3,layers=2,hidden=16,vocabulary=24,batch=8",
                                 "nmt?steps=3,layers=1,hidden=16,vocabulary=24,batch=16"};

// With drawn configurations, on blocks of devices too.
TEST(UnitCosts, AreThePartsOfThePlan) {
  constexpr uint64_t kSeed = 7;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Rng rng(kSeed);
  for (const char* model : kNetworks)
    for (const char* name : {"local:4", "flexflow-p100"}) {
      const Graph graph = training(model);
      const Cluster cluster = load_cluster(name);
      const std::vector<SoapUnit> units = soap_units(graph);
      Configurations few;  // tables of all take minutes
      for (const std::vector<SoapConfiguration>& all : all_of(graph, cluster, units, {})) {
        few.emplace_back();
        for (int i = 0; i < 4; ++i) few.back().push_back(all[rng.below(all.size())]);
      }
      const UnitCosts costs = unit_costs(graph, cluster, units, few);
      for (int round = 0; round < 4; ++round) {
        std::vector<int> values;
        std::vector<SoapConfiguration> chosen;
        for (size_t u = 0; u < units.size(); ++u) {
          values.push_back(static_cast<int>(rng.below(few[u].size())));
          chosen.push_back(few[u][static_cast<size_t>(values[u])]);
        }
        const Plan plan = soap_plan(graph, cluster, units, chosen, "soap");
        const Parts parts = parts_of(graph, cluster, units, plan);
        EXPECT_NEAR(static_cast<double>(costs.of(values)), static_cast<double>(parts.ns),
                    1e-6 * static_cast<double>(parts.ns))
            << model << " on " << name;
        EXPECT_GE(parts.ns + parts.with_hosts_ns, serial_ns(graph, plan, cluster)) << model << " on " << name;
      }
    }
}

UnitValues brute_force(const UnitCosts& costs) {
  std::vector<int> values(costs.own.size(), 0);
  UnitValues best{.cost = std::numeric_limits<int64_t>::max()};
  for (size_t u = 0; u < values.size();) {
    if (const int64_t cost = costs.of(values); cost < best.cost) best.cost = cost, best.values = values;
    for (u = 0; u < values.size() && ++values[u] == static_cast<int>(costs.own[u].size()); ++u) values[u] = 0;
  }
  return best;
}

void expect_least(const UnitCosts& costs, const std::string& what) {
  const UnitValues least = brute_force(costs), found = least_values(costs, std::vector<int>(costs.own.size(), 0));
  EXPECT_TRUE(found.least) << what;
  EXPECT_EQ(found.cost, least.cost) << what;
  EXPECT_EQ(costs.of(found.values), found.cost) << what;
  // Without memory for tables, the remaining units are improved around held units, and one by one.
  const UnitValues held = least_values(costs, std::vector<int>(costs.own.size(), 0), {}, 1);
  EXPECT_EQ(held.least, held.left == 0) << what;
  EXPECT_EQ(costs.of(held.values), held.cost) << what;
  EXPECT_GE(held.cost, least.cost) << what;
  EXPECT_LE(held.cost, costs.of(std::vector<int>(costs.own.size(), 0))) << what;
}

TEST(OptCnn, FindsTheLeastOfAllPlans) {
  for (const char* model : {"mlp?layers=2,width=8,batch=16", "mlp?layers=3,width=512,batch=64",
                            "cnn?layers=2,image=8,filters=8,batch=8,loss=cross_entropy",
                            "rnntc?steps=2,layers=2,hidden=64,vocabulary=20,classes=4,batch=16"})
    for (const char* name : {"local:2", "p2.8xlarge"}) {
      const Graph graph = training(model);
      const Cluster cluster = load_cluster(name, name[0] == 'l' ? 2 : 4);
      const std::vector<SoapUnit> units = soap_units(graph);
      const Configurations all = all_of(graph, cluster, units, {.operation = false});
      expect_least(unit_costs(graph, cluster, units, all), fmt::format("{} on {}", model, name));
    }
}

// Any units next to any others: chains, cycles and cliques, with units that remain.
TEST(OptCnn, FindsTheLeastOfRandomTables) {
  constexpr uint64_t kSeed = 11;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Rng rng(kSeed);
  int with_rest = 0, without = 0;
  for (int round = 0; round < 300; ++round) {
    UnitCosts costs;
    const int units = static_cast<int>(rng.between(1, 7));
    for (int u = 0; u < units; ++u) {
      costs.own.emplace_back();
      for (int64_t i = rng.between(2, 4); i > 0; --i) costs.own.back().push_back(rng.between(0, 9));
    }
    for (int a = 0; a < units; ++a)
      for (int b = a + 1; b < units; ++b) {
        if (rng.below(5) > 2) continue;
        std::vector<int64_t> ns(costs.own[static_cast<size_t>(a)].size() * costs.own[static_cast<size_t>(b)].size());
        for (int64_t& x : ns) x = rng.between(0, 9);
        costs.pairs.push_back({a, b, std::make_shared<const std::vector<int64_t>>(std::move(ns))});
      }
    expect_least(costs, fmt::format("round {}", round));
    ++(least_values(costs, std::vector<int>(costs.own.size(), 0)).left > 0 ? with_rest : without);
  }
  EXPECT_GT(with_rest, 50);
  EXPECT_GT(without, 50);
}

// If the time has passed, it returns the initial values.
TEST(OptCnn, EndsInTime) {
  const UnitCosts costs{{{3, 1}, {2, 5}}, {}};
  EXPECT_EQ(least_values(costs, {0, 1}, {.deadline = Watch::Clock::now()}).values, (std::vector<int>{0, 1}));
  EXPECT_EQ(least_values(costs, {0, 1}).values, (std::vector<int>{1, 0}));
}

}  // namespace
}  // namespace partita
