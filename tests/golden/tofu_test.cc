// Tests Tofu's own examples, counted by hand, and the properties of its coarsening.
#include "partita/search/cuts/tofu.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"
#include "partita/graph/gradients.h"
#include "partita/models/testing/training.h"
#include "partita/ops/ops.h"
#include "partita/plan/check.h"
#include "partita/plan/constraints.h"
#include "partita/plan/resolve.h"
#include "partita/search/all/search_text.h"

namespace partita {
namespace {

constexpr int64_t kFloat = 4;

SearchResult found(const std::string& search, const Graph& graph, const Cluster& cluster, const Constraints& pins = {},
                   const Budget& budget = {}) {
  const SearchChoice choice = parse_search(search);
  const Problem problem{graph, cluster, Objective::kComm, pins, choice.options};
  Rng rng(1);
  return choice.entry->search(problem, budget, rng);
}

// Figures 1 and 2: conv1d of data [b, ci, x] with filters [co, ci, 1], all tensors split over two workers.
struct Conv1d {
  int64_t b, ci, co, x;
  Graph graph() const {
    GraphBuilder build("conv1d", standard_ops());
    const TensorId data = build.input("data", {b, ci, 1, x}), filters = build.parameter("filters", {co, ci, 1, 1});
    return build.finish({build.op("conv2d", {data, filters}, {}, "conv1d")});
  }
  int64_t data_bytes() const { return b * ci * x * kFloat; }
  int64_t filter_bytes() const { return co * ci * kFloat; }
  int64_t output_bytes() const { return b * co * x * kFloat; }
};

// Split along b, each worker reads all filters, of which it has half: one copy of the filters moves. Along ci, each
// worker reads half of both, and gets the other's half of its half of the output: one copy of the output moves. Along
// co it is the data; along x, without a halo as the window is one wide, the filters again.
TEST(Tofu, Conv1dTakesTheSplitThatMovesLeast) {
  struct Case {
    Conv1d conv;
    std::string index;
    int64_t bytes;
  };
  const Conv1d small_filters{8, 4, 4, 16}, small_output{4, 64, 4, 4}, small_data{4, 4, 512, 4};
  for (const auto& [conv, index, bytes] :
       {Case{small_filters, "n", small_filters.filter_bytes()}, Case{small_output, "c", small_output.output_bytes()},
        Case{small_data, "o", small_data.data_bytes()}}) {
    const Graph graph = conv.graph();
    const Cluster cluster = load_cluster("local:2");
    const SearchResult result = found("tofu", graph, cluster);
    ASSERT_TRUE(result.plan);
    EXPECT_EQ(*result.plan->paper_cost, static_cast<double>(bytes)) << index;
    EXPECT_EQ(*result.plan->paper_cost,
              static_cast<double>(std::min({conv.data_bytes(), conv.filter_bytes(), conv.output_bytes()})));
    EXPECT_EQ(check(graph, *result.plan, cluster).comm_bytes, bytes) << index;
    for (TensorId id : {TensorId(size_t{0}), TensorId(size_t{1})})
      EXPECT_EQ(result.plan->kept.at(id).sbp[0].kind, Sbp::Kind::kSplit);
  }
  // ICML18 may not add outputs up. Among the remaining splits, moving the data is cheaper than moving the filters.
  const Graph graph = small_output.graph();
  const SearchResult without = found("icml18", graph, load_cluster("local:2"));
  EXPECT_EQ(*without.plan->paper_cost,
            static_cast<double>(std::min(small_output.data_bytes(), small_output.filter_bytes())));
}

// Figure 6: a product of matrices by rows, then by columns. In step 1 the half of B that the other group has is
// fetched, by both groups: |B|. In step 2 each worker fetches the other half of its rows of A: |A|. It needs only the
// columns of the workers opposite of the B that its group has read: nothing more than in step 1.
TEST(Tofu, TwoStepsOfFigure6) {
  GraphBuilder build("figure6", standard_ops());
  const TensorId a = build.input("a", {8, 16}), b = build.parameter("b", {16, 32});
  const TensorId c = build.op("matmul", {a, b}, {}, "c");
  const Graph graph = build.finish({c});
  const Cluster cluster = load_cluster("local:4");
  const Mesh mesh{{2, 2}, slowest_link_first(cluster)};
  Constraints pins;
  pins.ops[OpId(size_t{0})] = {mesh, {tdl::AxisStrategy{.names = {"i"}}, tdl::AxisStrategy{.names = {"j"}}}};
  for (TensorId t : {a, b, c}) pins.kept[t] = {mesh, {Sbp::split(0), Sbp::split(1)}, {}};
  const int64_t bytes_a = 8 * 16 * kFloat, bytes_b = 16 * 32 * kFloat;
  const SearchResult result = found("tofu", graph, cluster, pins);
  EXPECT_EQ(check(graph, *result.plan, cluster).comm_bytes, bytes_a + bytes_b);
  EXPECT_EQ(*result.plan->paper_cost, static_cast<double>(bytes_a + bytes_b));
  ASSERT_EQ(result.notes.size(), 3u);
  EXPECT_TRUE(result.notes[0].starts_with(fmt::format("step 1 into 2: {} bytes", bytes_b))) << result.notes[0];
  EXPECT_TRUE(result.notes[1].starts_with(fmt::format("step 2 into 2: {} bytes", bytes_a))) << result.notes[1];
}

TEST(Tofu, FactorsGoFromLargestToSmallest) {
  const Graph graph = training("zoo:mlp?layers=1,width=24,batch=24");
  for (const auto& [devices, factors] :
       std::map<int, std::vector<int>>{{1, {}}, {2, {2}}, {5, {5}}, {6, {3, 2}}, {7, {7}}, {12, {3, 2, 2}}}) {
    const Cluster cluster = load_cluster(fmt::format("local:{}", devices));
    const SearchResult result = found("tofu", graph, cluster);
    for (const OpChoice& op : result.plan->ops) EXPECT_EQ(op.mesh.extents, factors);
    EXPECT_NO_THROW(check(graph, *result.plan, cluster));
    for (const char* search : {"equal-chop", "allrow-greedy", "spartan"}) {
      const Plan plan = *found(search, graph, cluster).plan;
      for (const OpChoice& op : plan.ops)
        EXPECT_EQ(op.mesh.extents, devices == 1 ? std::vector<int>{} : std::vector<int>{devices});
    }
  }
}

// Figure 5: the coarsened graph of a multi-layer perceptron is its layers' chain.
TEST(Tofu, TheGroupsOfAPerceptronAreAChain) {
  const SearchResult result =
      found("tofu", training("zoo:mlp?layers=6,width=24,batch=24,bias=0,loss=elementwise"), load_cluster("local:2"));
  EXPECT_NE(result.notes[0].find("series-parallel"), std::string::npos) << result.notes[0];
}

// Section 5.1: all time steps of a cell are split alike, forward and backward.
TEST(Tofu, TimeStepsShareTheirStrategies) {
  const Graph graph = training("zoo:rnnlm?steps=4,hidden=32,vocabulary=48,batch=16");
  const Plan plan = *found("tofu", graph, load_cluster("local:8")).plan;
  std::map<std::string, std::vector<tdl::AxisStrategy>> known;
  int compared = 0;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.cell < 0 || op.definition != "gate_linear") continue;
    const std::string place = fmt::format("{} {}", op.cell, op.name.substr(op.name.rfind('.')));
    auto [found, fresh] = known.try_emplace(place, plan.ops[i].strategies);
    EXPECT_EQ(found->second, plan.ops[i].strategies) << op.name;
    compared += !fresh;
  }
  EXPECT_EQ(compared, 2 * 2 * 3);  // layers, products, further steps
}

// An element-wise op reads and leaves everything as it is kept.
TEST(Tofu, ElementwiseOpsConvertNothing) {
  const Graph graph = training("zoo:lenet?batch=24");
  const Cluster cluster = load_cluster("local:6");
  const Plan plan = *found("tofu", graph, cluster).plan;
  const Resolved resolved = resolve(graph, plan, cluster);
  for (const ResolvedConversion& c : resolved.conversions)
    for (const Reader& reader : c.readers)
      if (tdl::is_elementwise(*graph.op(reader.op).bound) && !graph.tensor(c.tensor).shape.empty()) {
        EXPECT_EQ(c.conversion.bytes, 0) << graph.op(reader.op).name;
      }
}

TEST(Tofu, NothingThatCanBeSplitIsWhole) {
  const Graph graph = training("zoo:lenet?batch=24");
  for (const char* search : {"tofu", "equal-chop", "allrow-greedy", "spartan", "icml18"}) {
    const Plan plan = *found(search, graph, load_cluster("local:2")).plan;
    for (const auto& [id, kept] : plan.kept)
      if (std::any_of(graph.tensor(id).shape.begin(), graph.tensor(id).shape.end(), [](int64_t n) { return n >= 2; })) {
        EXPECT_EQ(kept.sbp[0].kind, Sbp::Kind::kSplit) << search << " " << graph.tensor(id).name;
      }
  }
}

TEST(Tofu, FindsTheGradientOfEachTensor) {
  const Graph graph = training("zoo:lenet?batch=24");
  const std::vector<TensorId> of = gradient_of(graph);
  std::map<TensorId, int> gradients;
  for (size_t t = 0; t < of.size(); ++t) {
    if (!of[t].valid()) continue;
    EXPECT_EQ(graph.tensors[t].shape, graph.tensor(of[t]).shape);
    ++gradients[of[t]];
  }
  for (size_t t = 0; t < graph.tensors.size(); ++t)
    if (graph.tensors[t].role == Role::kParameter) {
      EXPECT_EQ(gradients[TensorId(t)], 1) << graph.tensors[t].name;
    }
}

// Recomputed results are no gradients, and gradients are of the same tensors as without recomputation.
TEST(Tofu, WhatIsMadeAgainIsNoGradient) {
  const Graph graph = training("zoo:gpt2?layers=3,hidden=24,heads=2,steps=8,vocabulary=50,batch=8");
  const Graph again = recompute_activations(graph, "layer");
  const auto by_name = [](const Graph& g) {
    std::map<std::string, std::string> names;
    const std::vector<TensorId> of = gradient_of(g);
    for (size_t t = 0; t < of.size(); ++t)
      if (of[t].valid()) names[g.tensors[t].name] = g.tensor(of[t]).name;
    return names;
  };
  EXPECT_GT(again.ops.size(), graph.ops.size());
  EXPECT_EQ(by_name(again), by_name(graph));
}

// So there is no more to choose than without recomputation.
TEST(Tofu, WhatIsMadeAgainChoosesWithWhatItRepeats) {
  const Graph graph = training("zoo:gpt2?layers=3,hidden=24,heads=2,steps=8,vocabulary=50,batch=8");
  const Graph again = recompute_activations(graph, "layer");
  const Cluster cluster = load_cluster("local:4");
  const auto choices = [&](const Graph& g, const CoarseningRules& rules) {
    const Problem problem{g, cluster};
    Cuts cuts(problem, tofu_space("tofu"), {2, 2});
    return coarsen(cuts, cuts.next(cuts.start()), rules).network.variables();
  };
  for (const bool gradients : {false, true})
    EXPECT_EQ(choices(again, {.gradients = gradients}), choices(graph, {.gradients = gradients}));
  const Plan plan = *found("tofu", again, cluster).plan;
  int clones = 0;
  for (size_t i = 0; i < again.ops.size(); ++i) {
    if (!is_clone(again, again.ops[i])) continue;
    EXPECT_EQ(plan.ops[i].strategies, plan.ops[again.ops[i].forward.index()].strategies) << again.ops[i].name;
    ++clones;
  }
  EXPECT_GT(clones, 0);
}

TEST(Icml18, NoResultIsAddedUp) {
  const Graph graph = training("zoo:lenet?batch=24");
  const Cluster cluster = load_cluster("local:4");
  const Resolved resolved = resolve(graph, *found("icml18", graph, cluster).plan, cluster);
  for (const ResolvedOp& op : resolved.ops)
    for (const Layout& layout : op.layouts.results) EXPECT_FALSE(layout.is_partial());
}

// Counted by hand: a [4, 16] is 256 bytes, b [16, 64] 4096, c [4, 64] 1024, on two workers.
TEST(Greedy, WhatIsSettledFirst) {
  GraphBuilder build("product", standard_ops());
  const TensorId a = build.input("a", {4, 16}), b = build.parameter("b", {16, 64});
  const TensorId c = build.op("matmul", {a, b}, {}, "c");
  const Graph graph = build.finish({c});
  const Cluster cluster = load_cluster("local:2");
  // By rows: along i all of b moves, 4096; along j half of a and of b are turned round or fetched, and c is turned
  // round, 256 + 2048 + 512; along k a is turned round, 128, and c is added up, 1024.
  const Plan rows = *found("allrow-greedy", graph, cluster).plan;
  for (TensorId t : {a, b, c}) EXPECT_EQ(rows.kept.at(t).sbp, NdSbp{Sbp::split(0)});
  EXPECT_EQ(*rows.paper_cost, 128 + 1024);
  EXPECT_EQ(rows.ops[0].strategies[0].names, std::vector<std::string>{"k"});
  // The largest is b, and nothing speaks against its rows; the op that then moves least adds c up, and a follows it.
  const Plan spartan = *found("spartan", graph, cluster).plan;
  EXPECT_EQ(spartan.kept.at(b).sbp, NdSbp{Sbp::split(0)});
  EXPECT_EQ(spartan.kept.at(a).sbp, NdSbp{Sbp::split(1)});
  EXPECT_EQ(*spartan.paper_cost, 1024);
  // By columns only a has to move.
  EXPECT_EQ(*found("tofu", graph, cluster).plan->paper_cost, 256);
}

// A plan that a search returns is one that it can be given as pins, and a pin on another mesh is refused by name.
TEST(Searches, KeepPins) {
  const Graph graph = training("zoo:mlp?layers=2,width=12,batch=12,loss=elementwise");
  const Cluster cluster = load_cluster("local:6");
  const OpId op = graph.find_op("tanh_1").valid() ? graph.find_op("tanh_1") : OpId(size_t{1});
  for (const char* search : {"soybean", "tofu", "allrow-greedy", "spartan", "equal-chop", "icml18"}) {
    const Plan free = *found(search, graph, cluster).plan;
    Constraints pins;
    pins.ops[op] = free.ops[op.index()];
    for (tdl::AxisStrategy& s : pins.ops[op].strategies) s = {};  // replicated: none would choose it
    pins.kept[graph.ops[op.index()].operands[0]] = {
        free.ops[0].mesh, NdSbp(free.ops[0].mesh.extents.size(), Sbp::broadcast()), {}};
    const Plan pinned = *found(search, graph, cluster, pins).plan;
    EXPECT_EQ(pinned.ops[op.index()], pins.ops[op]) << search;
    EXPECT_EQ(pinned.kept.at(pins.kept.begin()->first), pins.kept.begin()->second) << search;
    EXPECT_NO_THROW(check(graph, pinned, cluster)) << search;
    pins.ops[op].mesh.extents = {2, 3};
    try {
      found(search, graph, cluster, pins);
      ADD_FAILURE() << search << " took a pin on another mesh";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kBadInput);
      EXPECT_NE(std::string(e.what()).find(graph.op(op).name), std::string::npos) << e.what();
    }
  }
}

TEST(Tofu, ABudgetThatEndsBeforeTheLastStepIsNoPlan) {
  const Graph graph = training("zoo:mlp?layers=2,width=8,batch=8");
  for (const char* search : {"tofu", "equal-chop", "spartan", "allrow-greedy", "icml18"})
    for (const Budget& budget : {Budget{std::nullopt, 0}, Budget{0.0, std::nullopt}}) try {
        found(search, graph, load_cluster("local:8"), {}, budget);
        ADD_FAILURE() << search << " found a plan";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::kTimeLimit);
      }
}

}  // namespace
}  // namespace partita
