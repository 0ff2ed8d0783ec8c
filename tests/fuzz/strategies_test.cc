// Lowers every derived strategy of every operation and of every instance of the description language, with operands
// kept in various layouts. Each graph is verified, and refused when a term is taken from it.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/ops/examples.h"
#include "partita/ops/ops.h"
#include "partita/physical/lower_local.h"
#include "partita/plan/constraints.h"
#include "partita/plan/rules.h"
#include "partita/tdl/testing/instances.h"

namespace partita {
namespace {

Values values_of_array(const tdl::Array& array) {
  Values values{is_float(array.dtype) ? DType::kFloat64 : array.dtype, array.shape, {}, {}};
  if (is_float(array.dtype)) values.real = array.reals;
  else values.integer = array.ints;
  return values;
}

struct Tally {
  int graphs = 0, pads = 0, combines = 0, collectives = 0, wrong = 0;
};

int64_t elements(const PhysicalGraph& graph, const Access& access) {
  return volume(access.boxes.empty() ? graph.reg(access.reg).box(0) : access.boxes[0]);
}

bool is_refused(const PhysicalGraph& graph) {
  try {
    verify(graph);
  } catch (const Error& e) {
    return true;
  }
  return false;
}

bool pads(const PhysicalGraph& graph, const Task& task) {
  if (!std::holds_alternative<CombineWork>(task.work)) return false;
  int64_t covered = 0;
  for (const Access& read : task.reads) covered += elements(graph, read);
  return covered < elements(graph, task.writes[0]);
}

// Without one of its terms, padding of an operand is wrong, and so is a sum or product of partial values, unless the
// term is the identity, as after padding. (A maximum may be right still: members hold subsets of others' terms.)
void lose_a_term(PhysicalGraph graph, Rng& rng, Tally& tally) {
  const bool any_pads =
      std::any_of(graph.tasks.begin(), graph.tasks.end(), [&](const Task& task) { return pads(graph, task); });
  std::vector<Task*> fit;
  for (Task& task : graph.tasks) {
    const auto* work = std::get_if<CombineWork>(&task.work);
    if (!work || (work->reducer != tdl::Reducer::kSum && work->reducer != tdl::Reducer::kProd) || task.reads.empty())
      continue;
    const bool of_operand = std::all_of(task.reads.begin(), task.reads.end(),
                                        [&](const Access& read) { return graph.reg(read.reg).constant; });
    if (any_pads ? of_operand && pads(graph, task) : elements(graph, task.writes[0]) > 0) fit.push_back(&task);
  }
  if (fit.empty()) return;
  Task& task = *fit[rng.below(fit.size())];
  task.reads.erase(task.reads.begin() + static_cast<std::ptrdiff_t>(rng.below(task.reads.size())));
  ++tally.wrong;
  EXPECT_TRUE(is_refused(graph)) << "'" << task.name << "' without one of its terms";
}

// Not if positions do the same: one is enough. A short index in more shards than it has elements leaves some without
// any. If two operands are padded, a term may meet only zeros.
bool is_each_needed(const std::vector<tdl::AxisStrategy>& strategies) {
  std::set<std::string> names;
  for (const tdl::AxisStrategy& s : strategies) {
    if (s.replicate()) return false;
    if (!s.partial.empty() && !names.insert("partial").second) return false;
    for (const std::string& name : s.names)
      if (!names.insert(name).second) return false;
  }
  return true;
}

// A graph of one op on operands that are state, under one strategy an axis of the mesh.
void verify_one(const Graph& graph, const Cluster& cluster, const Mesh& mesh,
                const std::vector<tdl::AxisStrategy>& strategies, Rng& rng, Tally& tally) {
  if (!tdl::derive(*graph.ops[0].bound, mesh.extents, strategies)) return;
  Constraints pins;
  pins.ops[OpId(0)] = {mesh, strategies};
  for (TensorId id : graph.ops[0].operands) {
    NdSbp sbp;
    const Shape& shape = graph.tensor(id).shape;
    for (int extent : mesh.extents) {
      sbp.push_back(Sbp::broadcast());
      if (shape.empty() || rng.below(3) == 0) continue;
      const int axis = static_cast<int>(rng.below(shape.size()));
      if (shape[axis] >= 4 * extent) sbp.back() = Sbp::split(axis);
    }
    pins.kept[id] = {mesh, sbp, {}};
  }
  try {
    const Resolved resolved = resolve(graph, data_parallel_plan(graph, cluster, pins), cluster);
    PhysicalGraph physical = lower_local(graph, resolved, cluster).graph;
    verify(physical);
    ++tally.graphs;
    for (const Task& task : physical.tasks) {
      tally.collectives += std::holds_alternative<CollectiveWork>(task.work);
      if (!std::holds_alternative<CombineWork>(task.work)) continue;
      ++tally.combines;
      tally.pads += pads(physical, task);
    }
    if (is_each_needed(strategies)) lose_a_term(physical, rng, tally);
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
  }
}

void verify_all(const Graph& graph, const std::string& name, uint64_t seed, int pairs, Tally& tally) {
  Rng rng(seed);
  for (int p : {2, 3}) {
    const Cluster cluster = load_cluster(fmt::format("local:{}", p));
    for (const tdl::AxisStrategy& strategy : allowed_strategies(graph.ops[0], p)) {
      SCOPED_TRACE(fmt::format("seed {}, {}: {} on {} devices", seed, name, tdl::to_string(strategy), p));
      verify_one(graph, cluster, {{p}, slowest_link_first(cluster)}, {strategy}, rng, tally);
    }
  }
  const Cluster cluster = load_cluster("local:4");
  const auto strategies = allowed_strategies(graph.ops[0], 2);
  for (int i = 0; i < pairs; ++i) {
    const auto &outer = strategies[rng.below(strategies.size())], &inner = strategies[rng.below(strategies.size())];
    SCOPED_TRACE(
        fmt::format("seed {}, {}: {} and {} on 2x2 devices", seed, name, tdl::to_string(outer), tdl::to_string(inner)));
    verify_one(graph, cluster, {{2, 2}, slowest_link_first(cluster)}, {outer, inner}, rng, tally);
  }
}

void report(const char* what, const Tally& t) {
  std::printf("%s: %d graphs verified, with %d collectives and %d combines, of which %d pad; %d made wrong, refused\n",
              what, t.graphs, t.collectives, t.combines, t.pads, t.wrong);
  EXPECT_GT(t.pads, 50);
  EXPECT_GT(t.combines, 2 * t.pads);
}

void of_operations(uint64_t seed, int pairs) {
  const auto registry = standard_ops();
  Tally tally;
  for (const OpDefinition* definition : registry->all())
    for (const OpDefinition::Example& example : definition->examples) {
      Rng rng(++seed);
      GraphBuilder build(definition->name, registry);
      std::vector<TensorId> operands;
      for (const tdl::Array& array : random_operands(*definition, example, rng))
        operands.push_back(build.state(fmt::format("operand{}", operands.size()), values_of_array(array)));
      const std::vector<TensorId> results = build.ops(definition->name, operands, example.attributes);
      verify_all(build.finish(results), definition->name, seed, pairs, tally);
    }
  report("operations", tally);
}

void of_instances(uint64_t seed, int pairs) {
  const auto registry = standard_ops();
  Tally tally;
  for (const tdl::testing::Instance& instance : tdl::testing::instances()) {
    if (instance.text.find("opaque") != std::string::npos) continue;  // has no kernel
    const tdl::Bound bound = tdl::testing::bind(instance);
    GraphBuilder build("instance", registry);
    std::vector<TensorId> operands;
    for (const tdl::Array& array : tdl::testing::operands(instance, 1))
      operands.push_back(build.state(fmt::format("operand{}", operands.size()), values_of_array(array)));
    if (operands.empty()) continue;  // a graph needs something to start from
    const std::vector<TensorId> results = build.formula("instance", tdl::to_text(bound), operands);
    verify_all(build.finish(results), instance.name, ++seed, pairs, tally);
  }
  report("instances", tally);
}

// Partial sums of one mesh that are read as partial sums on another, on which the same devices stand in any order, and
// are then made whole: a member may get one term of some elements and two of others. Each of the terms counts.
TEST(Strategies, PartialValuesMoveBetweenMeshes) {
  GraphBuilder build("moved", standard_ops());
  const auto state = [&](const char* name, const Shape& shape) {
    return build.state(name,
                       Values{DType::kFloat32, shape, std::vector<double>(static_cast<size_t>(volume(shape)), 1), {}});
  };
  const TensorId product = build.op("matmul", {state("x", {4, 6}), state("w", {6, 8})});
  const TensorId sum = build.op("add", {product, state("y", {4, 8})});
  const Graph graph = build.finish({build.op("tanh", {sum})});
  const Cluster cluster = load_cluster("local:4");
  const tdl::AxisStrategy partial{.names = {}, .partial = {"a", "b"}};
  int uneven = 0;
  std::vector<DeviceId> devices = slowest_link_first(cluster);
  for (bool more = true; more; more = std::ranges::next_permutation(devices).found)
    for (const char* cut : {"i.0", "i.1"}) {
      SCOPED_TRACE(fmt::format("{} on {}", cut, to_string(Mesh{{2, 2}, devices})));
      Constraints pins;
      pins.ops[OpId(0)] = {{{2, 2}, slowest_link_first(cluster)}, {{.names = {"k"}}, {.names = {"j"}}}};
      pins.ops[OpId(1)] = {{{2, 2}, devices}, {partial, {.names = {cut}}}};
      PhysicalGraph physical =
          lower_local(graph, resolve(graph, data_parallel_plan(graph, cluster, pins), cluster), cluster).graph;
      verify(physical);
      for (Task& task : physical.tasks) {
        if (!std::holds_alternative<CombineWork>(task.work) || task.reads.size() < 2) continue;
        for (size_t r = 1; r < task.reads.size(); ++r)
          uneven += task.reads[r].boxes == task.reads[0].boxes &&
                    elements(physical, task.reads[r]) < elements(physical, task.writes[0]);
        for (size_t r = 0; r < task.reads.size(); ++r) {
          const std::vector<Access> reads = task.reads;
          task.reads.erase(task.reads.begin() + static_cast<std::ptrdiff_t>(r));
          EXPECT_TRUE(is_refused(physical)) << "'" << task.name << "' without one of its terms";
          task.reads = reads;
        }
      }
    }
  std::printf("%d times two terms of a part of what is combined\n", uneven);
  EXPECT_GT(uneven, 0);
}

TEST(Strategies, OfEveryOperationAreVerified) { of_operations(0, 4); }
TEST(Strategies, OfEveryInstanceAreVerified) { of_instances(0, 4); }
TEST(LongStrategies, OfEveryOperationAreVerified) { of_operations(1000, 60); }
TEST(LongStrategies, OfEveryInstanceAreVerified) { of_instances(1000, 60); }

}  // namespace
}  // namespace partita
