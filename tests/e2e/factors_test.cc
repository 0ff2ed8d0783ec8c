// Tests factorings carried over the graph (TDL.md rule 4): a fused projection is split inside each of q, k and v, from
// the weight to its update, and computes the same.
#include "partita/graph/factors.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"
#include "partita/kernel_plan/registered.h"
#include "partita/ops/ops.h"
#include "partita/plan/resolve.h"
#include "partita/train/serial.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

bool anything(const Op&) { return true; }

tdl::Attributes thirds(double axis, double size) {
  return {{"axis", axis}, {"sizes.0", size}, {"sizes.1", size}, {"sizes.2", size}};
}

// x [6, 5, 8] -> one product -> q, k, v -> q k v.
Graph fused(bool split) {
  GraphBuilder b("fused", standard_ops());
  const TensorId x = b.input("x", {6, 5, 8});
  const TensorId y = b.op("linear", {x, b.parameter("w", {8, 24}), b.parameter("b", {24})}, {}, "qkv");
  std::vector<TensorId> parts;
  if (split) {
    parts = b.ops("split", {y}, thirds(2, 8), "parts");
  } else {  // as view(6, 5, 3, 8) and unbind
    const TensorId seen =
        b.op("reshape", {y}, {{"shape.0", 6}, {"shape.1", 5}, {"shape.2", 3}, {"shape.3", 8}}, "view");
    for (double k : {0, 1, 2})
      parts.push_back(b.op("select", {seen}, {{"axis", 2}, {"index", k}}, fmt::format("part{}", k)));
  }
  return b.finish({b.op("mul", {b.op("mul", {parts[0], parts[1]}), b.op("tanh", {parts[2]})}, {}, "out")});
}

Planned plan_of(const Graph& graph, int devices, const std::string& search,
                Optimizer optimizer = {"sgd", 0.01, 0.9, 0}) {
  Request request;
  request.cluster = fmt::format("local:{}", devices);
  request.search = search;
  request.dtype = DType::kFloat64;
  request.optimizer = optimizer;
  Runner runner;
  return plan_graph({with_dtype(graph, DType::kFloat64), {.kind = "mse"}}, request, runner);
}

const Op& op(const Graph& graph, const std::string& name) {
  const OpId id = graph.find_op(name);
  EXPECT_TRUE(id.valid()) << name;
  return graph.op(id);
}

TEST(CarriedFactors, AProductBeforeASplitIsCutInsideEachPart) {
  for (bool split : {true, false}) {
    SCOPED_TRACE(split ? "split" : "reshape");
    const Planned p = plan_of(fused(split), 2, "soybean", {"adam", 0.01});
    EXPECT_FALSE(op(p.training, "qkv").factors.empty());
    for (const char* name : {"w", "b"}) {  // cut alike from the gradient to the update, state included
      const TensorId w = p.training.find_tensor(name), now = p.training.replacement_of(w);
      ASSERT_TRUE(now.valid());
      const Op& update = p.training.op(p.training.tensor(now).producer);
      EXPECT_EQ(update.factors.size(), 1u) << name;
      EXPECT_EQ(update.factors.begin()->second, (Shape{3, 8})) << name;
    }
    // The linear op's strategies: [S(2.1)] of y from S(1.1) of w.
    bool found = false;
    for (const tdl::AxisStrategy& s : tdl::strategies(*op(p.training, "qkv").bound, 2))
      if (const auto derived = tdl::derive(*op(p.training, "qkv").bound, {2}, {s}))
        found |= tdl::to_string(*op(p.training, "qkv").bound, *derived).ends_with(": B, S(1.1), S(0.1) -> S(2.1)");
    EXPECT_TRUE(found);
    // The text says it, and reads back.
    const std::string text = print(p.training);
    EXPECT_NE(text.find("=3x8"), std::string::npos);
    const Graph again = parse_graph(text, p.training.registry);
    verify(again);
    EXPECT_EQ(print(again), text);
    EXPECT_EQ(parse_plan(print(p.plan, p.training), p.training), p.plan);
  }
}

// A pin that splits everything inside q, k and v: nothing of the forward pass is moved.
TEST(CarriedFactors, CutInsideThePartsNothingMovesAndItComputesTheSame) {
  for (bool split : {true, false})
    for (int devices : {2, 3, 4}) {
      SCOPED_TRACE(fmt::format("{} on {} devices", split ? "split" : "reshape", devices));
      Planned p = plan_of(fused(split), devices, "data-parallel");
      for (std::size_t i = 0; i < p.training.ops.size(); ++i) {
        const tdl::Bound& bound = *p.training.ops[i].bound;
        // The index of extent 8 along the result's last axis, if there is one.
        std::vector<tdl::AxisStrategy> chosen;
        for (const tdl::AxisStrategy& s : tdl::strategies(bound, devices)) {
          if (s.names.size() != 1 || !s.partial.empty() || bound.indices[bound.find_index(s.names[0])].extent != 8)
            continue;
          const auto derived = tdl::derive(bound, {devices}, {s});
          if (!derived || derived->kinds[0][bound.results[0]]) continue;
          const Box box = derived->boxes[bound.results[0]][0];
          if (!box.empty() && box.back().size() < 8) chosen.push_back(s);
        }
        if (!chosen.empty()) p.plan.ops[i].strategies = {chosen[0]};
      }
      for (const char* name : {"w", "b"}) {  // and their states
        Placement& kept = p.plan.kept.at(p.training.find_tensor(name));
        const bool weight = std::string(name) == "w";
        kept.sbp = {Sbp::split(weight ? 1 : 0, 1)};
        kept.radices = weight ? std::vector<Shape>{{8}, {3, 8}} : std::vector<Shape>{{3, 8}};
      }
      Runner runner;
      for (auto& [tensor, placement] : p.plan.kept)
        if (p.training.tensor(tensor).role == Role::kState)
          placement = p.plan.kept.at(p.training.find_tensor(p.training.tensor(tensor).shape.size() == 2 ? "w" : "b"));
      finish(p, runner);
      for (const ResolvedConversion& c : resolve(p.training, p.plan, p.cluster).conversions) {
        const OpId producer = p.training.tensor(c.tensor).producer;
        // `out` is read by the loss, which the pin leaves as it was.
        if (producer.valid() && p.training.op(producer).phase == Phase::kForward &&
            p.training.op(producer).name != "out" && p.training.tensor(c.tensor).shape.size() > 1) {
          EXPECT_EQ(c.conversion.bytes, 0) << p.training.tensor(c.tensor).name;
        }
      }
      TrainOptions options;
      options.steps = 3;
      TrainReport report = train(p, options, kernels());
      compare_with(train_serial(p.training, options, kernels()), report);
      EXPECT_LE(*report.max_error_vs_serial, 1e-10);
      EXPECT_LE(*report.max_loss_error_vs_serial, 1e-10);
    }
}

TEST(CarriedFactors, AConvolutionKeepsItsChannelsAndTheSplitItsParts) {
  GraphBuilder b("glu", standard_ops());
  const TensorId x = b.input("x", {4, 3, 6, 6});
  const TensorId y = b.op("conv2d", {x, b.parameter("w", {8, 3, 3, 3})}, {}, "conv");
  const auto parts = b.ops("split", {y}, {{"axis", 1}, {"sizes.0", 4}, {"sizes.1", 4}}, "halves");
  const Graph graph = b.finish({b.op("mul", {parts[0], b.op("sigmoid", {parts[1]})})});
  const auto may = [](const Op& o) { return !is_registered(o.definition); };
  EXPECT_EQ(op(cut_parts_alike(graph, may), "halves").attributes.at("together"), 0);
  EXPECT_EQ(op(cut_parts_alike(graph, anything), "halves").attributes.at("together"), 1);
  for (int devices : {2, 3}) {
    const Planned p = plan_of(graph, devices, "soybean");
    for (const Op& o : p.training.ops) EXPECT_TRUE(o.factors.empty()) << o.name;
    TrainOptions options;
    options.steps = 2;
    TrainReport report = train(p, options, kernels());
    compare_with(train_serial(p.training, options, kernels()), report);
    EXPECT_LE(*report.max_error_vs_serial, 1e-10);
  }
}

TEST(CarriedFactors, ManyPartsAreDealtOutWholeAndUnequalOnesOneByOne) {
  GraphBuilder b("merged", standard_ops());
  const TensorId x = b.input("x", {16, 6});
  const TensorId y = b.op("linear", {x, b.parameter("w", {6, 10}), b.parameter("b", {10})}, {}, "fc");
  const auto parts = b.ops("split", {y}, {{"axis", 1}, {"sizes.0", 4}, {"sizes.1", 6}}, "unequal");
  const TensorId seen =
      b.op("reshape", {b.op("tanh", {parts[1]})}, {{"shape.0", 8}, {"shape.1", 2}, {"shape.2", 6}}, "view");
  const Graph graph = b.finish({seen, parts[0]});
  const Graph carried = carry_factors(cut_parts_alike(graph, anything), anything);
  EXPECT_EQ(print(carried), print(graph));
}

}  // namespace
}  // namespace partita
