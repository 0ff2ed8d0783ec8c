// Tests what is recomputed in small graphs, by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"
#include "partita/graph/repeats.h"
#include "partita/models/models.h"
#include "partita/onnx/onnx.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

using Words = std::vector<std::string>;

Graph recompute_set(const Graph& forward, const std::string& kind, const std::string& loss = "mse",
                    bool in_micro_batches = false) {
  const Graph graph = recompute_activations(add_backward(forward, {.kind = loss}, {}), kind, in_micro_batches);
  verify(graph);
  return graph;
}

// In graph order, without ".recompute".
Words clones(const Graph& graph) {
  Words names;
  for (const Op& op : graph.ops)
    if (op.name.ends_with(".recompute")) {
      EXPECT_EQ(graph.op(op.forward).name + ".recompute", op.name);
      EXPECT_EQ(op.phase, Phase::kBackward);
      names.push_back(graph.op(op.forward).name);
    }
  return names;
}

// Results of forward ops that backward ops read, sorted.
Words kept(const Graph& graph) {
  std::set<std::string> names;
  for (const Op& op : graph.ops)
    for (TensorId t : op.operands)
      if (const OpId producer = graph.tensor(t).producer;
          op.phase == Phase::kBackward && producer.valid() && graph.op(producer).phase == Phase::kForward)
        names.insert(graph.tensor(t).name);
  return {names.begin(), names.end()};
}

// Products of different widths, each with a sine; then y = s3 v.
//
// With 4 samples the backward pass reads these numbers (m: of a product, s: of a sine):
//   m0 40  s0 40  m1 28  s1 28  m2 36  s2 36  m3 20  s3 20  y 12: 260 in all.
// Cut at m1, s2 and s3 it does with 96:
//   y, with the three cuts: 12 + 84; s2 .. s3, with s2 and m1: m3 20 + 64; m1 .. s2, with m1: s1 28 + m2 36 + 28;
//   up to m1: m0 40 + s0 40.
// No cuts need less. Ops after s3 need more than 84 for two cuts before it, which are 28 and 36 at least. With one of
// them 120 or more are read at once before s3.
TEST(RecomputeLayer, CutsWhereLeastMemoryIsNeeded) {
  GraphBuilder b("chain", standard_ops());
  TensorId s = b.input("x", {4, 6});
  const int64_t widths[] = {10, 7, 9, 5};
  for (int i = 0; i < 4; ++i) {
    const TensorId w = b.parameter(fmt::format("w{}", i), {b.shape(s)[1], widths[i]});
    s = b.op("sin", {b.op("matmul", {s, w}, {}, fmt::format("m{}", i))}, {}, fmt::format("s{}", i));
  }
  const Graph forward = b.finish({b.op("matmul", {s, b.parameter("v", {5, 3})}, {}, "y")});
  EXPECT_EQ(kept(recompute_set(forward, "none")), (Words{"m0", "m1", "m2", "m3", "s0", "s1", "s2", "s3", "y"}));
  const Graph graph = recompute_set(forward, "layer");
  EXPECT_EQ(kept(graph), (Words{"m1", "s2", "s3", "y"}));
  EXPECT_EQ(clones(graph), (Words{"m3", "s1", "m2", "m0", "s0"}));
}

// Results made only of a weight are made once for all micro-batches.
TEST(Recompute, LeavesWeightsAloneWhereTheBatchIsInParts) {
  for (const std::string kind : {"layer", "pointwise"}) {
    GraphBuilder b("chain", standard_ops());
    TensorId s = b.input("x", {4, 6});
    for (int i = 0; i < 6; ++i) {
      const TensorId w = b.op("sin", {b.parameter(fmt::format("w{}", i), {6, 6})}, {}, fmt::format("u{}", i));
      s = b.op("sin", {b.op("matmul", {s, w}, {}, fmt::format("m{}", i))}, {}, fmt::format("s{}", i));
    }
    const Graph forward = b.finish({s});
    const auto of_weights = [](const std::string& name) { return name[0] == 'u'; };
    EXPECT_TRUE(std::ranges::any_of(clones(recompute_set(forward, kind)), of_weights)) << kind;
    const Words again = clones(recompute_set(forward, kind, "mse", true));
    EXPECT_FALSE(again.empty());
    EXPECT_TRUE(std::ranges::none_of(again, of_weights)) << kind;
  }
}

// Two branches side by side, which meet at the end: to recompute all of it would save next to nothing.
TEST(RecomputeLayer, NoCuts) {
  GraphBuilder b("branches", standard_ops());
  const TensorId x = b.input("x", {4, 6});
  TensorId p = b.op("matmul", {x, b.parameter("a", {6, 5})}), q = b.op("matmul", {x, b.parameter("b", {6, 7})});
  p = b.op("sin", {p}), q = b.op("sin", {q});
  p = b.op("matmul", {p, b.parameter("c", {5, 1})}), q = b.op("matmul", {q, b.parameter("d", {7, 1})});
  const Graph forward = b.finish({b.op("mul", {p, q})});
  EXPECT_EQ(clones(recompute_set(forward, "layer")), Words());
}

// Only the input of each layer is kept, and the operands of the head.
TEST(RecomputeLayer, OfGpt2) {
  const Model model = build_model("zoo:gpt2?layers=4,hidden=64,heads=4,vocabulary=96,steps=16", {}, standard_ops());
  const Graph graph = recompute_set(model.graph, "layer", "cross_entropy");
  const std::vector<Repeat> layers = repeated_layers(graph);
  ASSERT_EQ(layers.size(), 1u);
  ASSERT_EQ(layers[0].copies, 4);
  auto layer_of = [&](OpId op) {
    const int at = op.value - layers[0].first.value;
    return at < 0 || at >= 4 * layers[0].ops ? -1 : at / layers[0].ops;
  };
  std::set<OpId> made;
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::kBackward) continue;
    for (TensorId t : op.operands) {
      const OpId producer = graph.tensor(t).producer;
      if (!producer.valid() || graph.op(producer).phase != Phase::kForward || layer_of(producer) < 0) continue;
      EXPECT_EQ(layer_of(op.forward), layer_of(producer) == 3 ? -1 : layer_of(producer) + 1)
          << op.name << " reads " << graph.tensor(t).name;
    }
    if (op.name.ends_with(".recompute")) EXPECT_TRUE(made.insert(op.forward).second) << op.name;
  }
  for (const OpId op : made) EXPECT_GE(layer_of(op), 0);
  EXPECT_TRUE(made.contains(graph.find_op("transformer.h.2.mlp.c_fc")));
  const Words read = kept(graph);
  Words of_layers;
  std::copy_if(read.begin(), read.end(), std::back_inserter(of_layers),
               [&](const std::string& name) { return layer_of(graph.tensor(graph.find_tensor(name)).producer) >= 0; });
  EXPECT_EQ(of_layers, (Words{"transformer.h.0.mlp.add", "transformer.h.1.mlp.add", "transformer.h.2.mlp.add",
                              "transformer.h.3.mlp.add"}));
}

// Batch norms are recomputed, running statistics are updated once. Ops before the first repeated layer are recomputed
// too.
TEST(RecomputeLayer, OfBatchNorm) {
  const Model model = build_model("zoo:resnet-50?image=32,classes=5", {}, standard_ops());
  const Graph before = recompute_set(model.graph, "none", "cross_entropy"),
              graph = recompute_set(model.graph, "layer", "cross_entropy");
  auto updates = [](const Graph& g) {
    return std::count_if(g.tensors.begin(), g.tensors.end(), [](const Tensor& t) { return t.replaces.valid(); });
  };
  EXPECT_EQ(updates(graph), updates(before));
  const Words again = clones(graph);
  EXPECT_TRUE(std::any_of(again.begin(), again.end(), [&](const std::string& name) {
    return graph.op(graph.find_op(name)).definition == "batch_norm";
  }));
  EXPECT_NE(std::find(again.begin(), again.end(), "conv1"), again.end());
}

// ---------------------------------------------------------------- attention

TEST(RecomputeAttention, InPieces) {
  GraphBuilder b("attention", standard_ops());
  const TensorId x = b.input("x", {2, 5, 6}), mask = b.input("mask", {5, 5}, DType::kFloat32, -1);
  auto part = [&](const char* name) {
    return b.op("linear", {x, b.parameter(std::string("w_") + name, {6, 6})}, {}, name);
  };
  const TensorId q = part("q"), k = part("k"), v = part("v");
  const TensorId scores = b.op("mul", {b.op("matmul_nt", {q, k}, {}, "product"), b.scalar("scale", 0.5)}, {}, "scores");
  const TensorId shifted = b.op("add", {scores, b.op("exp", {mask}, {}, "bias")}, {}, "masked");
  const TensorId weights = b.op("softmax", {shifted}, {}, "weights");
  const TensorId o = b.op("matmul", {b.op("dropout", {weights}, {{"p", 0.1}}, "dropped"), v}, {}, "o");
  // No attention: a parameter is multiplied before, or the axis is another.
  const TensorId gates = b.op("softmax", {b.op("linear", {o, b.parameter("w_gate", {6, 5})}, {}, "gate")}, {}, "gates");
  const TensorId mixed = b.op("matmul", {gates, v}, {}, "mixed");
  const TensorId across = b.op("softmax", {b.op("matmul_nt", {mixed, mixed}, {}, "pairs")}, {{"axis", 1}}, "across");
  const Graph forward = b.finish({b.op("matmul", {across, v}, {}, "y")});
  const Graph graph = recompute_set(forward, "attention");
  EXPECT_EQ(clones(graph), (Words{"product", "scores", "masked", "weights", "dropped", "o"}));
  EXPECT_EQ(kept(graph), (Words{"across", "bias", "gates", "k", "mixed", "q", "v", "y"}));
}

TEST(RecomputeAttention, AsOneOp) {
  const Model model = build_model("zoo:gpt2?layers=2,hidden=32,heads=2,vocabulary=20,steps=8", {}, standard_ops());
  const Graph graph = recompute_set(model.graph, "attention", "cross_entropy");
  EXPECT_EQ(clones(graph), (Words{"transformer.h.1.attn", "transformer.h.0.attn"}));
}

// The second product's result, which only a copy reads, is not recomputed.
TEST(RecomputeAttention, OfAnExportedModel) {
  const Graph forward = import_onnx(std::string(PARTITA_SOURCE_DIR) + "/tests/data/gpt2.onnx", {}, standard_ops());
  const Graph graph = recompute_set(forward, "attention", "cross_entropy");
  Words definitions;
  for (const std::string& name : clones(graph)) definitions.push_back(graph.op(graph.find_op(name)).definition);
  EXPECT_EQ(definitions, (Words{"matmul", "add", "softmax", "matmul", "add", "softmax"}));
}

}  // namespace
}  // namespace partita
