// Tests every derived strategy of every operation, planned, lowered, admitted and run on 2, 3 and 4 devices: results
// equal those of one device, to 1e-11 in float64. Instances of the description language that no operation has (inner
// halos, strided stages) are run the same way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/ops/examples.h"
#include "partita/ops/ops.h"
#include "partita/plan/check.h"
#include "partita/plan/constraints.h"
#include "partita/plan/rules.h"
#include "partita/schedule/lower.h"
#include "partita/tdl/testing/instances.h"
#include "partita/train/forward.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

Values values_of_array(const tdl::Array& array) {
  Values values{is_float(array.dtype) ? DType::kFloat64 : array.dtype, array.shape, {}, {}};
  if (is_float(array.dtype)) values.real = array.reals;
  else values.integer = array.ints;
  return values;
}

struct Tally {
  int strategies = 0, inner = 0, halos = 0, partial = 0, refused = 0;
  std::set<std::string> covered;
};

// A graph of one op whose operands are state with these values, and whose results are its outputs.
void run_all(const Graph& graph, const std::string& name, std::initializer_list<int> devices, Tally& tally) {
  Cluster one = load_cluster("local:1");
  Arrays serial = run_forward(graph, single_plan(graph, one), one, {}, {}, 1, kernels());
  for (int p : devices) {
    Cluster cluster = load_cluster("local:" + std::to_string(p));
    Mesh mesh{{p}, slowest_link_first(cluster)};
    for (const tdl::AxisStrategy& strategy : allowed_strategies(graph.ops[0], p)) {
      SCOPED_TRACE(fmt::format("{}: {} on {} devices", name, tdl::to_string(strategy), p));
      Constraints pins;
      pins.ops[OpId(0)] = {mesh, {strategy}};
      Plan plan = data_parallel_plan(graph, cluster, pins);
      auto derived = tdl::derive(*graph.ops[0].bound, {p}, {strategy});
      ASSERT_TRUE(derived.has_value());
      tally.inner += !derived->inner.empty();
      for (const tdl::InnerStep& step : derived->inner) tally.halos += !step.needed.empty();
      tally.partial += !strategy.partial.empty();
      ++tally.strategies;
      Arrays parallel;
      try {
        check(graph, plan, cluster);
        parallel = run_forward(graph, plan, cluster, {}, {}, 1, kernels());
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
        continue;
      }
      for (const auto& [output, expected] : serial) {
        const Values& got = parallel.at(output);
        EXPECT_EQ(got.integer, expected.integer) << output;
        double scale = 1;
        for (double x : expected.real)
          if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
        for (size_t i = 0; i < expected.real.size(); ++i) {
          bool same = got.real[i] == expected.real[i] || (std::isnan(got.real[i]) && std::isnan(expected.real[i])) ||
                      std::abs(got.real[i] - expected.real[i]) <= 1e-11 * scale;
          ASSERT_TRUE(same) << output << "[" << i << "]: " << got.real[i] << " and not " << expected.real[i];
        }
      }
    }
  }
  tally.covered.insert(name);
}

void report(const char* what, const Tally& t) {
  std::printf("%s: %zu covered, %d strategies run, %d with inner steps, %d inner halos, %d with partial operands\n",
              what, t.covered.size(), t.strategies, t.inner, t.halos, t.partial);
}

void every_operation(std::initializer_list<int> devices) {
  auto registry = standard_ops();
  Tally tally;
  for (const OpDefinition* definition : registry->all()) {
    uint64_t seed = 1;
    for (const OpDefinition::Example& example : definition->examples) {
      Rng rng(seed++);
      GraphBuilder build(definition->name, registry);
      std::vector<TensorId> operands;
      for (const tdl::Array& array : random_operands(*definition, example, rng))
        operands.push_back(build.state(fmt::format("operand{}", operands.size()), values_of_array(array)));
      std::vector<TensorId> results = build.ops(definition->name, operands, example.attributes);
      run_all(build.finish(results), definition->name, devices, tally);
    }
  }
  EXPECT_EQ(tally.covered.size(), registry->all().size());
  report("operations", tally);
}

TEST(ManyEveryStrategy, OfEveryOperation) { every_operation({2, 3, 4}); }

// Tells whether one device runs it.
bool runs(const Graph& graph) {
  try {
    const Cluster one = load_cluster("local:1");
    run_forward(graph, single_plan(graph, one), one, {}, {}, 1, kernels());
    return true;
  } catch (const Error& error) {
    return error.code() == ExitCode::kBug;  // which run_all() tells
  }
}

// The examples with each of their extents 0 in turn. Several devices compute the same over nothing as one: the
// reducer's identity, or results of it.
void every_operation_over_nothing(std::initializer_list<int> devices) {
  auto registry = standard_ops();
  Tally tally;
  for (const OpDefinition* definition : registry->all())
    for (const OpDefinition::Example& example : definition->examples) {
      std::set<int64_t> extents;
      for (const Shape& shape : example.shapes) extents.insert(shape.begin(), shape.end());
      for (const int64_t extent : extents) {
        OpDefinition::Example empty = example;
        for (Shape& shape : empty.shapes) std::replace(shape.begin(), shape.end(), extent, int64_t{0});
        Rng rng(1);
        GraphBuilder build(definition->name, registry);
        std::optional<Graph> graph;
        try {
          std::vector<TensorId> operands;
          for (const tdl::Array& array : random_operands(*definition, empty, rng))
            operands.push_back(build.state(fmt::format("operand{}", operands.size()), values_of_array(array)));
          graph = build.finish(build.ops(definition->name, operands, empty.attributes));
        } catch (const Error&) {  // attributes that are of the example's extents
        }
        if (!graph || !runs(*graph)) ++tally.refused;
        else run_all(*graph, fmt::format("{} without {}", definition->name, extent), devices, tally);
      }
    }
  std::printf("%d graphs that one device refuses\n", tally.refused);
  EXPECT_GT(tally.covered.size(), 200u);
  report("operations over nothing", tally);
}

TEST(EveryStrategy, OfEveryOperationOverNothing) { every_operation_over_nothing({2}); }
TEST(ManyEveryStrategy, OfEveryOperationOverNothing) { every_operation_over_nothing({3, 4}); }

// A tensor of 24 rows, made in one way, read as it is in another, and as 2 x 12 or 4 x 6 in a third, each split in its
// own way. The shards need not be boxes over common axes, and may be partial.
TEST(ManyEveryStrategy, OfTwoReadersOverOtherAxes) {
  auto registry = standard_ops();
  int run = 0, mixed = 0;
  for (const Shape& rows : {Shape{2, 12}, Shape{4, 6}})
    for (bool trained : {false, true}) {
      Rng rng(3);
      auto values = [&](const Shape& shape) {
        Values v{DType::kFloat64, shape, {}, {}};
        for (int64_t i = 0; i < volume(shape); ++i) v.real.push_back(rng.normal());
        return v;
      };
      GraphBuilder build("two", registry);
      const TensorId x = build.state("x", values({24, 4})), w = build.state("w", values({4, 2}));
      const TensorId y = trained ? build.op("sgd", {build.state("p", values({24, 2})), build.op("matmul", {x, w}),
                                                    build.scalar("lr", 0.5, DType::kFloat64)})
                                 : build.op("matmul", {x, w});
      const TensorId z = build.op("tanh", {y});
      const TensorId r = build.op(
          "reshape", {y},
          {{"shape.0", static_cast<double>(rows[0])}, {"shape.1", static_cast<double>(rows[1])}, {"shape.2", 2}});
      const Graph graph = build.finish({z, r});
      Cluster one = load_cluster("local:1");
      const Arrays serial = run_forward(graph, single_plan(graph, one), one, {}, {}, 1, kernels());
      Cluster cluster = load_cluster("local:3");
      const Mesh mesh{{3}, slowest_link_first(cluster)};
      const size_t last = graph.ops.size() - 1;
      for (const tdl::AxisStrategy& a : allowed_strategies(graph.ops[0], 3))
        for (const tdl::AxisStrategy& b : allowed_strategies(graph.ops[last - 1], 3))
          for (const tdl::AxisStrategy& c : allowed_strategies(graph.ops[last], 3)) {
            SCOPED_TRACE(fmt::format("{} {}: {}, {}, {}", fmt::join(rows, "x"), trained, tdl::to_string(a),
                                     tdl::to_string(b), tdl::to_string(c)));
            Constraints pins;
            pins.ops[OpId(0)] = {mesh, {a}};
            pins.ops[OpId(last - 1)] = {mesh, {b}};
            pins.ops[OpId(last)] = {mesh, {c}};
            const Plan plan = data_parallel_plan(graph, cluster, pins);
            check(graph, plan, cluster);
            const PhysicalGraph physical = lower(graph, plan, cluster);
            verify(physical);
            std::set<Shape> axes;
            for (const Register& reg : physical.registers)
              if (reg.tensor == y) axes.insert(reg.axes);
            mixed += axes.size() > 1;
            const Arrays parallel = run_forward(graph, plan, cluster, {}, {}, 1, kernels());
            for (const auto& [output, expected] : serial)
              for (size_t i = 0; i < expected.real.size(); ++i)
                ASSERT_NEAR(parallel.at(output).real[i], expected.real[i], 1e-13) << output << i;
            ++run;
          }
    }
  std::printf("%d plans, %d of them with a tensor over several axes\n", run, mixed);
  EXPECT_GT(mixed, 20);
}

TEST(ManyEveryStrategy, OfEveryInstanceOfTheLanguage) {
  auto registry = standard_ops();
  Tally tally;
  for (const tdl::testing::Instance& instance : tdl::testing::instances()) {
    if (instance.text.find("opaque") != std::string::npos)
      continue;  // kernels refuse what they can't compute, with a message
    tdl::Bound bound = tdl::testing::bind(instance);
    GraphBuilder build("instance", registry);
    std::vector<TensorId> operands;
    for (const tdl::Array& array : tdl::testing::operands(instance, 1))
      operands.push_back(build.state(fmt::format("operand{}", operands.size()), values_of_array(array)));
    if (operands.empty()) continue;  // a graph needs something to start from
    std::vector<TensorId> results = build.formula("instance", tdl::to_text(bound), operands);
    run_all(build.finish(results), instance.name, {2, 3}, tally);
  }
  EXPECT_GT(tally.halos, 0);
  EXPECT_GT(tally.inner, tally.halos);
  report("instances", tally);
}

}  // namespace
}  // namespace partita
