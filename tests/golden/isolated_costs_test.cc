// Compares isolated costs of conversions and ops with the simulator's time of lowered graphs that do nothing else at
// that time.
#include "partita/cost/isolated_costs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "partita/base/rng.h"
#include "partita/graph/builder.h"
#include "partita/models/testing/training.h"
#include "partita/ops/ops.h"
#include "partita/physical/lower_local.h"
#include "partita/plan/resolve.h"
#include "partita/schedule/lower.h"
#include "partita/search/all/search_text.h"
#include "partita/sim/simulate.h"
#include "tests/golden/direct_cluster.h"

namespace partita {
namespace {

// Loading an input takes no time, so the next tasks begin on all devices at once.
Cluster with_fast_hosts(Cluster cluster) {
  for (int d = 0; d < cluster.compute_count; ++d)
    for (LinkId l : cluster.route(cluster.devices[d].host, DeviceId(size_t(d)))) {
      Link fast = cluster.links[l.index()];
      fast.bandwidth_bytes_per_s = 1e18;
      fast.latency_us = 0;
      cluster.links.push_back(fast);
      LinkId own(cluster.links.size() - 1);
      cluster.routes.set(cluster.devices[d].host, DeviceId(size_t(d)), {own});
      break;
    }
  return cluster;
}

// y = x w, z = -y, of 64 x 64, split over a mesh.
Graph two_ops() {
  GraphBuilder b("two", standard_ops());
  const TensorId y = b.op("matmul", {b.input("x", {64, 64}), b.parameter("w", {64, 64})}, {}, "first");
  return b.finish({b.op("neg", {y}, {}, "second")});
}

// Strategies of both for every axis; not all exist.
struct Pair {
  std::vector<tdl::AxisStrategy> first, second;
};
std::vector<Pair> pairs(size_t axes) {
  std::vector<tdl::AxisStrategy> products, values;
  for (const char* s : {"i", "j", "k", "replicate"}) products.push_back(tdl::parse_strategy(s));
  const Graph graph = two_ops();
  for (const tdl::AxisStrategy& s : tdl::strategies(*graph.ops[1].bound, 2)) values.push_back(s);
  std::vector<Pair> all = {{}};
  for (size_t a = 0; a < axes; ++a) {
    std::vector<Pair> longer;
    for (const Pair& pair : all)
      for (const auto& p : products)
        for (const auto& v : values) {
          longer.push_back(pair);
          longer.back().first.push_back(p);
          longer.back().second.push_back(v);
        }
    all = std::move(longer);
  }
  return all;
}

bool begins_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

void expect_simulated(const Cluster& slow, const std::vector<int>& extents) {
  const Cluster cluster = with_fast_hosts(slow);
  const Graph graph = two_ops();
  const Mesh mesh{extents, slowest_link_first(cluster)};
  ConversionTimes times(cluster);
  int equal = 0, shorter = 0, other = 0;
  for (const auto& [first, second] : pairs(extents.size())) {
    if (!tdl::derive(*graph.ops[0].bound, extents, first) || !tdl::derive(*graph.ops[1].bound, extents, second))
      continue;
    Plan plan;
    plan.ops = {{mesh, first}, {mesh, second}};
    for (TensorId t : graph.ops[0].operands) plan.kept[t] = {mesh, NdSbp(extents.size(), Sbp::broadcast()), {}};
    const Resolved resolved = resolve(graph, plan, cluster);
    const ResolvedConversion* conversion = nullptr;
    for (const ResolvedConversion& c : resolved.conversions)
      if (c.tensor == graph.ops[0].results[0]) conversion = &c;
    if (!conversion || conversion->conversion.steps.empty()) continue;
    const int64_t alone = times.ns(conversion->conversion.from, conversion->conversion.to, 4);

    const PhysicalGraph physical = lower(graph, plan, cluster);
    const CostModel cost(cluster);
    const Trace trace = simulate(physical, cost);
    int64_t begin = -1, last_begin = 0, end = 0;
    bool combines = false;
    for (const Event& e : trace.events) {
      const Task& task = physical.task(e.task);
      if (task.op == OpId(0) && std::holds_alternative<KernelWork>(task.work)) {
        begin = begin < 0 ? e.end_ns : std::min(begin, e.end_ns);
        last_begin = std::max(last_begin, e.end_ns);
      }
      if (!begins_with(task.name, "first>second")) continue;
      combines |= std::holds_alternative<CombineWork>(task.work);
      end = std::max(end, e.end_ns);
    }
    SCOPED_TRACE(fmt::format("{}: {} -> {} in {} steps", cluster.name, to_string(conversion->conversion.from),
                             to_string(conversion->conversion.to), conversion->conversion.steps.size()));
    const int64_t simulated = std::max<int64_t>(0, end - begin);
    const auto slack = static_cast<int64_t>(physical.tasks.size()) + (last_begin - begin);
    if (end == 0) {  // views
      EXPECT_EQ(alone, 0);
      continue;
    }
    if (std::abs(simulated - alone) <= slack) ++equal;
    else if (simulated < alone) ++shorter;
    else ++other;
    if (conversion->conversion.steps.size() == 1 && !combines)
      EXPECT_NEAR(static_cast<double>(simulated), static_cast<double>(alone), static_cast<double>(slack));
    // Devices go on to the next step, or combine, before others are through with theirs; then these may have to wait
    // for a link.
    else EXPECT_LE(simulated, 2 * alone + slack);
  }
  std::printf("%s over %s: %d equal, %d shorter in the simulator, %d longer\n", cluster.name.c_str(),
              fmt::format("{}", fmt::join(extents, "x")).c_str(), equal, shorter, other);
  EXPECT_GE(equal, 9 * (shorter + other));
}

TEST(Alone, ConversionsTakeWhatTheSimulatorSays) {
  for (const char* cluster : {"p2.8xlarge", "dgx-1", "local:8"})
    for (const std::vector<int>& extents : std::vector<std::vector<int>>{{8}, {4, 2}, {2, 4}})
      expect_simulated(load_cluster(cluster), extents);
  expect_simulated(load_cluster("flexflow-k80", 16), {4, 4});
  expect_simulated(load_cluster("p2.8xlarge", 3), {3});
}

TEST(Alone, DirectExchangesTakeWhatTheSimulatorSays) {
  for (const std::vector<int>& extents : std::vector<std::vector<int>>{{8}, {2, 4}})
    expect_simulated(direct_cluster("p2.8xlarge"), extents);
  expect_simulated(direct_cluster("flexflow-k80", 16), {4, 4});
}

// The longest of each run of stages over the devices.
TEST(Alone, KernelsTakeWhatTheSimulatorSays) {
  for (const char* model : {"lenet?batch=12", "transformer?layers=1,hidden=24,heads=2,steps=6,vocabulary=30,batch=6",
                            "resnet-18?batch=4,image=32"}) {
    const Graph graph = training(model);
    for (const char* search : {"tofu", "model-parallel"}) {
      const Cluster cluster = load_cluster("p2.8xlarge", 6);
      const SearchChoice choice = parse_search(search);
      Rng rng(1);
      const Plan plan = *choice.entry->search({graph, cluster, Objective::kComm, {}, choice.options}, {}, rng).plan;
      const Resolved resolved = resolve(graph, plan, cluster);
      const PhysicalGraph physical = lower_local(graph, resolve(graph, plan, cluster), cluster).graph;
      const CostModel cost(cluster);
      std::vector<std::map<int, int64_t>> longest(graph.ops.size());  // by op and first stage
      for (const Task& task : physical.tasks)
        if (const auto* kernel = std::get_if<KernelWork>(&task.work)) {
          int64_t& ns = longest[task.op.index()][kernel->first_stage];
          ns = std::max(ns, cost.task_ns(physical, task));
        }
      for (size_t i = 0; i < graph.ops.size(); ++i) {
        int64_t sum = 0;
        for (const auto& [stage, ns] : longest[i]) sum += ns;
        EXPECT_EQ(kernels_ns(cost, graph, graph.ops[i], *resolved.ops[i].derived, plan.ops[i].mesh), sum)
            << model << ", " << search << ": " << graph.ops[i].name;
      }
    }
  }
}

// The cache of ConversionTimes: layouts of shapes that are evenly split alike are one.
TEST(Alone, TablesAreTheTimesOfConversionsStepByStep) {
  constexpr uint64_t kSeed = 7;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  const Cluster cluster = load_cluster("p2.8xlarge");
  const CostModel cost(cluster);
  ConversionTimes times(cluster);
  for (const std::vector<int>& extents : std::vector<std::vector<int>>{{4, 2}, {2, 2, 2}})
    for (const Shape& shape : std::vector<Shape>{{16, 8}, {64, 8}, {640, 24}, {20, 9}}) {
      const Mesh mesh{extents, slowest_link_first(cluster)};
      std::vector<Layout> layouts;
      while (layouts.size() < 9) {
        NdSbp sbp;
        for (size_t a = 0; a < extents.size(); ++a) {
          const uint64_t kind = rng.below(4);
          sbp.push_back(kind < 2 ? Sbp::split(static_cast<int>(kind)) : kind == 2 ? Sbp::broadcast() : Sbp::partial());
        }
        layouts.push_back(make_layout(mesh, sbp, shape));
      }
      std::vector<int> all;
      for (size_t l = 0; l < layouts.size(); ++l) all.push_back(static_cast<int>(l));
      const std::vector<int64_t> table = times.table(layouts, all, all, 2);
      for (size_t f = 0; f < layouts.size(); ++f)
        for (size_t t = 0; t < layouts.size(); ++t) {
          double sum = 0;
          for (const Step& step : convert(layouts[f], layouts[t], 1, cluster).steps) sum += StepTime(step, cost).ns(2);
          EXPECT_NEAR(static_cast<double>(table[f * layouts.size() + t]), sum, 0.6)
              << to_string(layouts[f]) << " -> " << to_string(layouts[t]);
        }
    }
}

}  // namespace
}  // namespace partita
