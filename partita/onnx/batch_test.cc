// Tests graphs of one number of samples made for another, against the graph itself run on a few samples at a time.
#include "partita/onnx/batch.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <functional>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/base/testing/error_of.h"
#include "partita/graph/builder.h"
#include "partita/graph/rebatch.h"
#include "partita/graph/reference.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

using namespace onnx_model;

std::shared_ptr<const OpRegistry> registry() {
  static const auto ops = standard_ops();
  return ops;
}

tdl::Attributes list(const std::string& name, const Shape& values) {
  tdl::Attributes attributes;
  for (std::size_t i = 0; i < values.size(); ++i)
    attributes[fmt::format("{}.{}", name, i)] = static_cast<double>(values[i]);
  return attributes;
}

// Elements before and inside an axis.
std::pair<int64_t, int64_t> around(const Shape& shape, std::size_t axis) {
  return {volume(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis))),
          volume(Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()))};
}

tdl::Array part(const tdl::Array& whole, std::size_t axis, int64_t first, int64_t count) {
  tdl::Array piece{.dtype = whole.dtype, .shape = whole.shape};
  piece.shape[axis] = count;
  const auto [before, inside] = around(whole.shape, axis);
  for (int64_t b = 0; b < before; ++b)
    for (int64_t i = first * inside; i < (first + count) * inside; ++i)
      piece.reals.push_back(whole.at(b * whole.shape[axis] * inside + i));
  return piece;
}

tdl::Array random_array(const Shape& shape, Rng& rng) {
  tdl::Array a{.dtype = DType::kFloat32, .shape = shape};
  for (int64_t i = 0; i < volume(shape); ++i) a.reals.push_back(rng.normal());
  return a;
}

// The outputs of a graph of one input; parameters are drawn by their names.
std::vector<tdl::Array> outputs_of(const Graph& graph, const tdl::Array& x) {
  std::map<TensorId, tdl::Array> values;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    Rng rng(hash_name(t.name));
    if (t.role == Role::kParameter) values[TensorId(i)] = random_array(t.shape, rng);
    if (t.role == Role::kInput) values[TensorId(i)] = x;
  }
  reference_run(graph, values);
  std::vector<tdl::Array> outputs;
  for (TensorId id : graph.outputs) outputs.push_back(values.at(id));
  return outputs;
}

// Tells whether the graph can be made for `to` samples; if it can, each output is the graph's own of `from` samples at
// a time.
bool check(const Graph& graph, int64_t from, int64_t to, std::string* why = nullptr) {
  const Rebatched other = rebatched(graph, {{graph.inputs[0], 0}}, from, to);
  if (why) *why = other.why;
  if (!other.graph) return false;
  Shape shape = graph.tensor(graph.inputs[0]).shape;
  const int64_t all = std::lcm(from, to);  // the other graph's batches and the graph's own make the same samples
  shape[0] = all;
  Rng rng(11);
  const tdl::Array x = random_array(shape, rng);
  for (std::size_t o = 0; o < graph.outputs.size(); ++o) {
    const Shape &own = graph.tensor(graph.outputs[o]).shape, &made = other.graph->tensor(other.graph->outputs[o]).shape;
    std::size_t axis = 0;
    while (axis < own.size() && own[axis] == made[axis]) ++axis;
    EXPECT_LT(axis, own.size()) << print(graph);
    if (axis >= own.size()) return true;
    const int64_t each = own[axis] / from;
    for (int64_t s = 0; s < all; ++s) {
      const tdl::Array expected =
          part(outputs_of(graph, part(x, 0, s / from * from, from))[o], axis, s % from * each, each);
      const tdl::Array got = part(outputs_of(*other.graph, part(x, 0, s / to * to, to))[o], axis, s % to * each, each);
      EXPECT_EQ(got.shape, expected.shape);
      for (std::size_t i = 0; i < expected.reals.size(); ++i) {
        const double a = got.reals[i], e = expected.reals[i];
        const bool equal = std::abs(a - e) <= 1e-9 * (1 + std::abs(e)) || (std::isnan(a) && std::isnan(e));
        EXPECT_TRUE(equal) << "output " << o << ", sample " << s << ", value " << i << ": " << a << " instead of " << e
                           << "\n"
                           << print(graph) << "\n"
                           << print(*other.graph);
        if (!equal) return true;
      }
    }
  }
  return true;
}

struct Build : GraphBuilder {
  Build() : GraphBuilder("g", registry()) {}
  std::vector<TensorId> build_all(const char* op, const std::vector<TensorId>& x, tdl::Attributes attributes) {
    return ops(op, x, std::move(attributes));
  }
  TensorId reshaped(TensorId x, const Shape& shape) { return op("reshape", {x}, list("shape", shape)); }
  TensorId transposed(TensorId x, const Shape& order) { return op("transpose", {x}, list("perm", order)); }
};

void expect_kept(const Graph& graph, int64_t from) {
  for (int64_t to : {3, 2, 8, 1, 5}) {
    if (to == from) continue;
    EXPECT_TRUE(check(graph, from, to)) << from << " to " << to << "\n" << print(graph);
  }
}
void expect_refused(const Graph& graph, int64_t from, const std::string& reason) {
  std::string why;
  for (int64_t to : {3, 2, 8, 1}) {
    if (to == from) continue;
    EXPECT_FALSE(check(graph, from, to, &why)) << from << " to " << to << "\n" << print(graph);
    EXPECT_EQ(why, reason);
  }
}

// torch.nn.MultiheadAttention: [batch, sequence, d] -> [sequence, batch x heads, d / heads] -> .. -> [sequence x batch,
// d] -> back.
TEST(Rebatch, AttentionWithTheBatchSecond) {
  for (int64_t n : {1, 2}) {
    Build b;
    const TensorId x = b.transposed(b.input("x", {n, 5, 6}), {1, 0, 2});
    const auto heads = [&](const char* w) {
      return b.transposed(b.reshaped(b.op("linear", {x, b.parameter(w, {6, 6})}), {5, n * 2, 3}), {1, 0, 2});
    };
    const TensorId q = heads("q"), k = heads("k"), v = heads("v");
    const TensorId p = b.op("softmax", {b.op("matmul", {q, b.transposed(k, {0, 2, 1})})});
    const TensorId y = b.reshaped(b.transposed(b.op("matmul", {p, v}), {1, 0, 2}), {5 * n, 6});
    const TensorId z = b.transposed(b.reshaped(b.op("linear", {y, b.parameter("o", {6, 6})}), {5, n, 6}), {1, 0, 2});
    expect_kept(b.finish({z}), n);
  }
}

// Behind [8, n, 4, 4] -> [8, 16 n] the samples are before the 16 places, which only the output's own shape says.
TEST(Rebatch, TheOutputDecides) {
  Build b;
  const TensorId rows =
      b.transposed(b.reshaped(b.transposed(b.input("x", {1, 3, 2, 2}), {1, 0, 2, 3}), {3, 4}), {1, 0});
  expect_kept(b.finish({b.reshaped(rows, {1, 12})}), 1);
}

TEST(Rebatch, OnesAsTheBatch) {
  // A token that the file expands to its batch of 1, which is gone; a table that broadcasts; [1, 49, 8] stays samples
  // of 49.
  Build b;
  const TensorId x = b.input("x", {1, 8, 7, 7});
  const TensorId rows = b.transposed(b.reshaped(x, {1, 8, 49}), {0, 2, 1});
  const TensorId y = b.op("concat", {b.parameter("token", {1, 1, 8}), rows}, {{"axis", 1}});
  const TensorId z = b.op("add", {y, b.parameter("positions", {1, 50, 8})});
  expect_kept(b.finish({b.op("softmax", {z}, {{"axis", 1}})}), 1);
}

TEST(Rebatch, ValuesOfTheBatch) {
  const auto graph = [](std::vector<double> start) {
    Build b;
    const TensorId x = b.input("x", {2, 3});
    return b.finish(
        {b.op("concat", {b.constant("start", {.dtype = DType::kFloat32, .shape = {2, 1}, .real = start}), x},
              {{"axis", 1}})});
  };
  expect_kept(graph({4, 4}), 2);
  expect_refused(graph({4, 5}), 2, "reads 'start' (constant), which differs from sample to sample");
  // A token expanded to the batch; a table read at numbers that are the same for each sample.
  Build b;
  const TensorId x = b.input("x", {2, 3, 4}),
                 token = b.op("expand", {b.parameter("token", {1, 1, 4})}, list("shape", {2, 1, 4}));
  const TensorId zeros =
      b.constant("types", {.dtype = DType::kInt64, .shape = {2, 3}, .integer = std::vector<int64_t>(6)});
  const TensorId types = b.op("gather", {b.parameter("table", {2, 4}), zeros});
  expect_kept(b.finish({b.op("concat", {token, b.op("add", {x, types})}, {{"axis", 1}})}), 2);
}

// Learned rows of each sample, through an op with several results, and matrices.
TEST(Rebatch, RowsThatAreExpandedToTheBatch) {
  Build b;
  const TensorId x = b.input("x", {2, 3, 4});
  const TensorId rows = b.op("expand", {b.parameter("rows", {1, 5, 4})}, list("shape", {2, 5, 4}));
  const TensorId normal =
      b.build_all("layer_norm", {rows, b.parameter("g", {4}), b.parameter("h", {4})}, {{"axes", 1}}).front();
  const TensorId q = b.op("add", {b.op("linear", {normal, b.parameter("w", {4, 4})}), b.parameter("b", {4})});
  expect_kept(b.finish({b.op("matmul", {b.op("matmul", {q, b.transposed(x, {0, 2, 1})}), x})}), 2);
}

TEST(Rebatch, PlacesOfEachSample) {
  // x[arange(n), -1]: the last of each sample's three rows.
  for (int64_t n : {1, 2}) {
    Build b;
    const TensorId x = b.input("x", {n, 3, 4});
    Values last{.dtype = DType::kInt64, .shape = {n}};
    for (int64_t i = 0; i < n; ++i) last.integer.push_back(3 * i + 2);
    expect_kept(b.finish({b.op("gather", {b.reshaped(x, {n * 3, 4}), b.constant("last", last)})}), n);
  }
  // The row that each sample names.
  Build b;
  const TensorId x = b.input("x", {1, 3, 4});
  const TensorId ids = b.op("argmax", {b.op("reduce_sum", {x}, list("axes", {2}))});
  expect_kept(b.finish({b.op("gather", {b.reshaped(x, {3, 4}), ids})}), 1);
}

TEST(Rebatch, MixedSamplesAreRefused) {
  const auto refused = [](const Shape& shape, const std::string& reason, auto&& make) {
    Build b;
    const TensorId x = b.input("x", shape);
    expect_refused(b.finish({make(b, x)}), shape[0], reason);
  };
  const tdl::Attributes front{{"axis", 0}};
  for (int64_t n : {1, 2, 4}) {
    refused({n, 4}, "brings one sample together with another", [](Build& b, TensorId x) {
      return b.op("matmul", {x, b.transposed(x, {1, 0})});
    });
    refused({n, 4}, "reduces over the samples", [](Build& b, TensorId x) {
      return b.op("sub", {x, b.op("reduce_mean", {x}, {{"axes.0", 0}, {"keepdims", 1}})});
    });
    refused({n, 4}, "reduces over the samples", [&](Build& b, TensorId x) { return b.op("softmax", {x}, front); });
    refused({n, 4}, "reads across the samples", [&](Build& b, TensorId x) {
      return b.op("concat", {x, b.op("tanh", {x})}, front);
    });
    refused({n, 4}, "uses the number of a sample", [&](Build& b, TensorId x) { return b.op("cumsum", {x}, front); });
  }
  const auto described = ops_with("by_batch(x)[b, i] = x[b, i] / ext(b)");
  GraphBuilder own("g", described);
  expect_refused(own.finish({own.op("by_batch", {own.input("x", {2, 4})})}), 2, "computes with the size of the batch");
  // Samples as one sequence: 2 x 3 rows attend to each other.
  refused({2, 3, 4}, "brings one sample together with another", [](Build& b, TensorId x) {
    const TensorId rows = b.reshaped(x, {1, 6, 4});
    return b.op("matmul", {b.op("softmax", {b.op("matmul", {rows, b.transposed(rows, {0, 2, 1})})}), rows});
  });
}

// ---------------------------------------------------------------- several inputs

std::map<std::string, Shape> inputs_of(const Graph& graph) {
  std::map<std::string, Shape> shapes;
  for (TensorId id : graph.inputs) shapes[graph.tensor(id).name] = graph.tensor(id).shape;
  return shapes;
}
using Inputs = std::map<std::string, Shape>;

// Two towers; `meet(image, text)` makes their common part.
Graph towers(int64_t n, const std::function<TensorId(Build&, TensorId, TensorId)>& meet) {
  Build b;
  const TensorId image = b.op("linear", {b.input("image", {n, 4}), b.parameter("a", {4, 3})});
  const TensorId text = b.op("reduce_mean", {b.input("text", {n, 5, 3})}, {{"axes.0", 1}, {"keepdims", 0}});
  return b.finish({meet(b, image, text), image, text});
}
Graph pairs(int64_t n) {
  return towers(n, [](Build& b, TensorId image, TensorId text) {
    return b.op("matmul", {image, b.transposed(text, {1, 0})});
  });
}

// The result for each of 5 images with each of 5 texts is the graph's for that image and that text.
TEST(SeveralInputs, PairsFollowEachOther) {
  for (int64_t n : {1, 2}) {
    const Graph own = pairs(n);
    const auto [graph, notes] = with_batch(own, 5, "m.onnx", {});
    EXPECT_EQ(inputs_of(graph), (Inputs{{"image", {5, 4}}, {"text", {5, 5, 3}}}));
    for (TensorId id : graph.inputs) EXPECT_EQ(graph.tensor(id).sample_axis, 0);
    EXPECT_EQ(graph.tensor(graph.outputs[0]).shape, (Shape{5, 5}));
    EXPECT_EQ(graph.tensor(graph.outputs[2]).shape, (Shape{5, 3}));
    EXPECT_EQ(notes, std::vector{fmt::format(
                         "--batch 5: each sample of 'image' meets each of 'text'; --bind text.0={} keeps these", n)});
    Rng rng(4);
    const tdl::Array image = random_array({5, 4}, rng), text = random_array({5, 5, 3}, rng);
    const auto logits = [&](const Graph& g, const tdl::Array& x, const tdl::Array& t) {
      std::map<TensorId, tdl::Array> values;
      for (std::size_t i = 0; i < g.tensors.size(); ++i) {
        Rng own_rng(hash_name(g.tensors[i].name));
        if (g.tensors[i].role == Role::kParameter) values[TensorId(i)] = random_array(g.tensors[i].shape, own_rng);
      }
      values[g.find_tensor("image")] = x, values[g.find_tensor("text")] = t;
      reference_run(g, values);
      return values.at(g.outputs[0]);
    };
    const tdl::Array all = logits(graph, image, text);
    for (int64_t i = 0; i + n <= 5; ++i)
      for (int64_t j = 0; j + n <= 5; ++j)
        EXPECT_NEAR(all.at(i * 5 + j), logits(own, part(image, 0, i, n), part(text, 0, j, n)).at(0), 1e-6);
  }
}

std::string error_with(const Graph& graph, const InputBindings& said = {}) {
  return error_of([&] { with_batch(graph, 5, "m.onnx", {}, said); });
}

TEST(SeveralInputs, ThatCannotFollowAreNamed) {
  const Graph graph = towers(2, [](Build& b, TensorId image, TensorId text) {
    return b.op("add", {image, b.op("reduce_mean", {text}, {{"axes.0", 0}, {"keepdims", 0}})});
  });
  Graph alone = graph;
  alone.outputs.pop_back();  // the text's own rows
  EXPECT_EQ(error_with(alone),
            "m.onnx: --batch 5: input 'text' [2, 5, 3] begins with the file's batch of 2 and cannot follow: "
            "'reduce_mean_1' (reduce_mean) reduces over the samples; --bind text.0=2 says that it has no samples, or "
            "export with a dynamic batch");
  const auto [kept, notes] = with_batch(alone, 5, "m.onnx", {}, {{"text", {.kept = {0}}}});
  EXPECT_EQ(inputs_of(kept), (Inputs{{"image", {5, 4}}, {"text", {2, 5, 3}}}));
  EXPECT_TRUE(notes.empty());
  // Pairs of which one is kept.
  const auto [half, none] = with_batch(pairs(2), 5, "m.onnx", {}, {{"text", {.kept = {0}}}});
  EXPECT_EQ(inputs_of(half), (Inputs{{"image", {5, 4}}, {"text", {2, 5, 3}}}));
}

// Results that no input reaches have no samples: a scale, a table.
TEST(SeveralInputs, OutputsOfParametersStay) {
  Build b;
  const TensorId y = b.op("tanh", {b.input("x", {2, 4})}), scale = b.op("exp", {b.parameter("scale", Shape{})}),
                 table = b.op("tanh", {b.parameter("table", {2, 3})});
  const Graph graph = with_batch(b.finish({y, scale, table}), 5, "m.onnx", {}).graph;
  EXPECT_EQ(graph.tensor(graph.outputs[0]).shape, (Shape{5, 4}));
  EXPECT_EQ(graph.tensor(graph.outputs[1]).shape, Shape{});
  EXPECT_EQ(graph.tensor(graph.outputs[2]).shape, (Shape{2, 3}));
}

// A number, a size, a mask of the sequence: no batch of theirs; with a batch of 1 a note names them.
TEST(SeveralInputs, WithoutSamplesStay) {
  const auto graph = [](int64_t n, const Shape& shape) {
    Build b;
    const TensorId x = b.input("x", {n, 3, 4}), y = b.input("y", shape);
    return b.finish({b.op("mul", {x, y})});
  };
  const auto [one, notes] = with_batch(graph(1, {1}), 5, "m.onnx", {});
  EXPECT_EQ(inputs_of(one), (Inputs{{"x", {5, 3, 4}}, {"y", {1}}}));
  EXPECT_EQ(notes, std::vector<std::string>{"--batch 5: 'y' [1] stays as in the file, without samples; --bind "
                                            "y.AXIS=5 says along which axis there are some"});
  EXPECT_EQ(inputs_of(with_batch(graph(2, {3, 4}), 5, "m.onnx", {}).graph), (Inputs{{"x", {5, 3, 4}}, {"y", {3, 4}}}));
  EXPECT_EQ(inputs_of(with_batch(graph(4, {4}), 5, "m.onnx", {}, {{"y", {.kept = {0}}}}).graph),
            (Inputs{{"x", {5, 3, 4}}, {"y", {4}}}));
  EXPECT_NE(error_with(graph(4, {4})).find("input 'y' [4] begins with the file's batch of 4"), std::string::npos);
}

// The batch is along the given axis.
TEST(SeveralInputs, AlongAnAxisThatIsSaid) {
  Build b;
  const TensorId x = b.input("x", {3, 2, 4});
  const Graph graph = b.finish({b.op("tanh", {x})});
  EXPECT_EQ(inputs_of(with_batch(graph, 5, "m.onnx", {}).graph), (Inputs{{"x", {5, 2, 4}}}));
  const auto [said, notes] = with_batch(graph, 5, "m.onnx", {}, {{"x", {.samples = 1}}});
  EXPECT_EQ(inputs_of(said), (Inputs{{"x", {3, 5, 4}}}));
  EXPECT_EQ(said.tensor(said.inputs[0]).sample_axis, 1);
}

// A graph that already has the batch is not made again, though it mixes samples.
TEST(SeveralInputs, OfTheFilesOwnBatch) {
  Build b;
  const TensorId x = b.input("x", {5, 4}), table = b.input("table", {4, 3});
  const Graph graph = b.finish({b.op("softmax", {b.op("matmul", {x, table})}, {{"axis", 0}})});
  EXPECT_EQ(print(with_batch(graph, 5, "m.onnx", {}).graph), print(graph));
}

Input symbolic(const std::string& name, const std::vector<std::string>& symbols) {
  Input input{.name = name};
  for (const std::string& s : symbols) {
    const bool fixed = !s.empty() && std::isdigit(static_cast<unsigned char>(s[0]));
    input.shape.push_back({fixed ? std::stoll(s) : -1, fixed ? "" : s});
  }
  return input;
}

TEST(SymbolicInputs, SequencesAreNoBatch) {
  using Axes = std::vector<int>;
  const auto bound = [](std::vector<Input> inputs, std::map<std::string, int64_t> bindings) {
    Model model{.path = "m.onnx"};
    model.inputs = std::move(inputs);
    return bound_inputs(model, {.bindings = std::move(bindings), .batch = 5});
  };
  const BoundInputs mask = bound({symbolic("mask", {"s", "s"}), symbolic("ids", {"n", "s"})}, {{"s", 7}});
  EXPECT_EQ(mask.shapes, (std::vector<Shape>{{7, 7}, {5, 7}}));
  EXPECT_EQ(mask.sample_axes, (Axes{-1, 0}));
  const BoundInputs states = bound({symbolic("x", {"n", "4"}), symbolic("h", {"2", "n", "8"})}, {});
  EXPECT_EQ(states.shapes, (std::vector<Shape>{{5, 4}, {2, 5, 8}}));
  EXPECT_EQ(states.sample_axes, (Axes{0, 1}));
  const BoundInputs named = bound({symbolic("x", {"s", "batch"}), symbolic("p", {"s"})}, {{"s", 7}});
  EXPECT_EQ(named.shapes, (std::vector<Shape>{{7, 5}, {7}}));
  EXPECT_EQ(named.sample_axes, (Axes{1, -1}));
  const BoundInputs apart = bound({symbolic("x", {"n", "4"}), symbolic("y", {"m", "6"})}, {{"m", 3}});
  EXPECT_EQ(apart.shapes, (std::vector<Shape>{{5, 4}, {3, 6}}));
  EXPECT_EQ(apart.sample_axes, (Axes{0, -1}));
  EXPECT_EQ(error_of([&] {
              bound({symbolic("mask", {"s", "s"}), symbolic("ids", {"n", "s"})}, {});
            }),
            "m.onnx: input 'mask', dimension 0 ('s') has no extent; give one: --bind s=N");
  EXPECT_EQ(error_of([&] {
              bound({symbolic("x", {"2", "4"})}, {{"x.0", 3}});
            }),
            "m.onnx: --bind x.0=3: axis 0 of 'x' has 2 in the file; --bind x.0=2 keeps it, --batch N with --bind x.0=N "
            "makes it the batch's");
}

// ---------------------------------------------------------------- random graphs

Shape random_factors(int64_t count, Rng& rng) {
  Shape shape;
  for (int64_t left = count; left > 1 || shape.empty();) {
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= left; ++d)
      if (left % d == 0) divisors.push_back(d);
    shape.push_back(divisors[rng.below(divisors.size())]);
    left /= shape.back();
    if (shape.size() > 4) shape.back() *= left, left = 1;
  }
  if (rng.below(3) == 0 && shape.size() < 5)
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(rng.below(shape.size() + 1)), 1);
  return shape;
}

TensorId random_step(Build& b, TensorId x, Rng& rng) {
  const Shape shape = b.shape(x);
  const std::size_t axis = rng.below(shape.size());
  const tdl::Attributes along{{"axis", static_cast<double>(axis)}};
  const std::string name = fmt::format("w{}", b.graph().tensors.size());
  switch (rng.below(13)) {
    case 0:
    case 1:
    case 2:
      return b.reshaped(x, random_factors(volume(shape), rng));
    case 3:
    case 4: {
      Shape order(shape.size());
      for (std::size_t a = 0; a < order.size(); ++a) order[a] = static_cast<int64_t>(a);
      rng.shuffle(order);
      return b.transposed(x, order);
    }
    case 5:
      return b.op("softmax", {x}, along);
    case 6:
      return shape.size() > 1
                 ? b.op("reduce_sum", {x},
                        {{"axes.0", static_cast<double>(axis)}, {"keepdims", static_cast<double>(rng.below(2))}})
                 : x;
    case 7:
      return b.op("linear", {x, b.parameter(name, {shape.back(), 3})});
    case 8: {
      Shape wide = shape;
      for (int64_t& extent : wide)
        if (rng.below(2)) extent = 1;
      if (rng.below(2)) wide.erase(wide.begin());
      return b.op("add", {x, b.parameter(name, wide)});
    }
    case 9: {
      Shape more = shape;
      more[axis] = 2;
      return volume(shape) > 200 ? x : b.op("concat", {x, b.parameter(name, more)}, along);
    }
    case 10: {
      if (shape.size() < 2) return x;
      Shape order(shape.size());
      for (std::size_t a = 0; a < order.size(); ++a) order[a] = static_cast<int64_t>(a);
      std::swap(order[order.size() - 1], order[order.size() - 2]);
      return volume(shape) > 200 ? x : b.op("matmul", {x, b.transposed(x, order)});
    }
    case 11: {
      Values ids{.dtype = DType::kInt64, .shape = {2}};
      for (int i = 0; i < 2; ++i)
        ids.integer.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(shape[axis]))));
      return b.op("gather", {x, b.constant(name, ids)}, along);
    }
    default: {
      Shape sizes = shape, starts(shape.size());
      sizes[axis] = std::max<int64_t>(1, shape[axis] - 1);
      starts[axis] = shape[axis] - sizes[axis];
      tdl::Attributes attributes = list("sizes", sizes);
      attributes.merge(list("starts", starts));
      return b.op("slice", {x}, attributes);
    }
  }
}

// Every accepted graph gives the results of the graph itself.
TEST(Rebatch, RandomGraphs) {
  constexpr uint64_t kSeed = 20;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Rng rng(kSeed);
  int kept = 0, refused = 0;
  for (int round = 0; round < 600 && !::testing::Test::HasFailure(); ++round) {
    Build b;
    const int64_t from = std::vector<int64_t>{1, 1, 2, 4}[rng.below(4)],
                  to = std::vector<int64_t>{2, 3, 4, 6}[rng.below(4)];
    if (from == to) continue;
    Shape shape = random_factors(24, rng);
    shape.insert(shape.begin(), from);
    TensorId x = b.input("x", shape);
    for (uint64_t n = 1 + rng.below(7); n > 0; --n) x = random_step(b, x, rng);
    if (!b.graph().tensor(x).producer.valid() || b.shape(x).empty()) continue;
    ++(check(b.finish({x}), from, to) ? kept : refused);
  }
  std::printf("%d graphs made for another batch, %d refused\n", kept, refused);
  EXPECT_GT(kept, 100);
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace partita
