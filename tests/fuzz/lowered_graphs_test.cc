// Tests lowered graphs of the zoo: verified, admitted, run on tagged memory; refused if made wrong on purpose.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/models/testing/training.h"
#include "partita/physical/passes.h"
#include "partita/physical/testing/tagged_run.h"
#include "partita/plan/rules.h"
#include "partita/schedule/lower.h"

namespace partita {
namespace {

struct Case {
  std::string model;
  int devices;
  std::string plan;
};
std::string name_of(const Case& c) { return fmt::format("{} on {} devices, {}", c.model, c.devices, c.plan); }

PhysicalGraph lowered(const Case& c, const LowerOptions& options = {}) {
  const Graph graph = training(c.model);
  const Cluster cluster = load_cluster(fmt::format("local:{}", c.devices));
  const Plan plan = c.plan == "single"          ? single_plan(graph, cluster)
                    : c.plan == "data-parallel" ? data_parallel_plan(graph, cluster)
                                                : model_parallel_plan(graph, cluster);
  return lower(graph, plan, cluster, options);
}

std::vector<Case> cases(const std::vector<std::string>& models, const std::vector<int>& devices) {
  std::vector<Case> result;
  for (const std::string& model : models)
    for (int d : devices)
      for (const char* plan : {"single", "data-parallel", "model-parallel"})
        if (d > 1 || std::string(plan) == "single") result.push_back({model, d, plan});
  return result;
}

constexpr int64_t kMostBytes = 8 << 20;  // they run on tagged memory in reasonable time

void check_all(const std::vector<Case>& all, int schedules) {
  for (const Case& c : all) {
    SCOPED_TRACE(name_of(c));
    const auto start = std::chrono::steady_clock::now();
    PhysicalGraph graph;
    try {
      graph = lowered(c);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    const auto middle = std::chrono::steady_clock::now();
    EXPECT_NO_THROW(verify(graph));
    const auto ms = [](auto d) { return std::chrono::duration_cast<std::chrono::milliseconds>(d).count(); };
    fmt::print("{}: {} tasks, {} registers, {} edges; lowered in {} ms, verified in {} ms\n", name_of(c),
               graph.tasks.size(), graph.registers.size(), graph.edges.size(), ms(middle - start),
               ms(std::chrono::steady_clock::now() - middle));
    std::fflush(stdout);
    const std::string text = print(graph);
    EXPECT_EQ(print(parse_physical(text)), text);
    int64_t bytes = 0;
    for (int64_t peak : graph.peak_bytes) bytes += peak;
    if (bytes > kMostBytes) continue;
    for (int k = 0; k < schedules; ++k) {
      Rng rng(static_cast<uint64_t>(k));
      const testing::TaggedRun run = testing::run_tagged(graph, rng);
      EXPECT_EQ(run.outcome, testing::Outcome::kDone) << run.what;
    }
  }
}

TEST(LoweredGraphs, OfTheZooAreVerifiedAdmittedAndRun) {
  check_all(cases({"zoo:mlp?batch=24,width=12"}, {1, 2, 3}), 2);
  check_all(cases({"zoo:lenet?batch=6"}, {1, 2}), 1);
}
TEST(LongLoweredGraphs, OfTheZooAreVerifiedAdmittedAndRun) {
  check_all(cases({"zoo:mlp?batch=26,width=12", "zoo:resnet-18?batch=24"}, {1, 2, 3, 4, 8}), 2);
  check_all(cases({"zoo:lenet?batch=24"}, {1, 2, 4, 8}), 2);
}

// Lowered graphs made wrong: every task that moves data is needed, and so is every edge.
TEST(LoweredGraphs, WithoutAnyOneEdgeAreRefused) {
  const PhysicalGraph graph = lowered({"zoo:mlp?batch=24,width=12", 3, "model-parallel"});
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    PhysicalGraph less = graph;
    less.edges.erase(less.edges.begin() + static_cast<std::ptrdiff_t>(e));
    EXPECT_TRUE(refuse(less).has_value())
        << to_string(graph, graph.edges[e].from) << " -> " << to_string(graph, graph.edges[e].to);
  }
}

TEST(LoweredGraphs, WithoutAnyOneTransferAreRefused) {
  const PhysicalGraph graph = lowered({"zoo:mlp?batch=24,width=12", 3, "model-parallel"});
  int transfers = 0;
  for (std::size_t gone = 0; gone < graph.tasks.size(); ++gone) {
    if (!std::holds_alternative<CopyWork>(graph.tasks[gone].work)) continue;
    PhysicalGraph less = graph;
    less.tasks.erase(less.tasks.begin() + static_cast<std::ptrdiff_t>(gone));
    less.order.clear();
    less.edges.clear();
    EXPECT_THROW(verify(less), Error) << graph.tasks[gone].name;
    ++transfers;
  }
  EXPECT_GT(transfers, 0);
}

TEST(LoweredGraphs, SharingBytesAndControlEdgesSaveMemory) {
  const Case c{"zoo:mlp?batch=64,width=256,layers=6", 4, "data-parallel"};
  const int64_t both = lowered(c).peak_bytes[0], apart = lowered(c, {.share_bytes = false}).peak_bytes[0],
                eager = lowered(c, {.control_edges = false}).peak_bytes[0];
  EXPECT_LT(both, apart);
  EXPECT_LT(both, eager);
}

}  // namespace
}  // namespace partita
