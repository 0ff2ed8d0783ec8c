// Tests graphs with a small registry of their own; the operations of the library have tests in ops.
#include "partita/graph/graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"
#include "partita/graph/index_limit.h"
#include "partita/graph/micro_batches.h"
#include "partita/graph/model_flops.h"
#include "partita/graph/reference.h"
#include "partita/graph/sample_tensors.h"

namespace partita {
namespace {

OpDefinition definition(const std::string& name, const std::string& formula, std::vector<Shape> example) {
  OpDefinition d;
  d.name = name;
  d.formula = [formula](const OpInstance&) { return formula; };
  d.examples.push_back({std::move(example), {}, {}});
  return d;
}

std::shared_ptr<const OpRegistry> small_registry() {
  auto registry = std::make_shared<OpRegistry>();
  auto no_attributes = [](const tdl::Attributes&, const Shape&) { return tdl::Attributes(); };
  registry->add(definition("matmul", "matmul(a, b)[i, j] = sum(k) a[i, k] * b[k, j]", {{2, 3}, {3, 4}}));
  OpDefinition nt = definition("matmul_nt", "nt(a, b)[i, j] = sum(k) a[i, k] * b[j, k]", {{2, 3}, {4, 3}});
  nt.match = no_attributes;
  registry->add(nt);
  registry->add(definition("tanh", "tanh_(x)[..i] = tanh(x[..i])", {{2, 3}}));
  registry->add(definition("add", "add(a, b)[..i] = a[..i] + b[..i]", {{2}, {2}}));
  registry->add(definition("mul", "mul(a, b)[..i] = a[..i] * b[..i]", {{2}, {2}}));
  registry->add(definition("transpose", "t(x)[j, i] = x[i, j]", {{2, 3}}));
  registry->add(definition(
      "halves", "h(x) -> lo, hi where i < x.0//2, j < x.0 - x.0//2 =\nlo[i] = x[i]\nhi[j] = x[j + x.0//2]", {{5}}));
  registry->add(definition("mse", "mse(y, t)[] = (sum(..i) (y[..i] - t[..i])^2) / ext(..i)", {{2}, {2}}));
  registry->add(definition("half_mean_square", "hms(y)[] = 0.5 * (sum(..i) y[..i]^2) / ext(..i)", {{2}}));
  registry->add(definition("embedding", "embedding(t, ids)[..b, h] = t[v = ids[..b], h]", {{3, 2}, {4}}));
  OpDefinition scale = definition("scale", "scale(x)[..i] = by * x[..i]", {{2}});
  scale.required = {"by"};
  scale.examples[0].attributes = {{"by", 2}};
  registry->add(scale);
  OpDefinition sgd =
      definition("sgd", "sgd(w, g, lr)[..i] = w[..i] - lr[] * (g[..i] + weight_decay * w[..i])", {{2}, {2}, {}});
  sgd.defaults = {{"weight_decay", 0}};
  sgd.update = {"sgd", {}, false};
  sgd.differentiable = false;
  sgd.replaces = {0};
  registry->add(sgd);
  return registry;
}

std::string message_of(const std::function<void()>& f, ExitCode code = ExitCode::kBadInput) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

Graph two_layers(bool shared = false) {
  GraphBuilder b("net", small_registry());
  const TensorId x = b.input("x", {4, 3}), w1 = b.parameter("w1", {3, 3}), w2 = shared ? w1 : b.parameter("w2", {3, 3});
  const TensorId h = b.op("tanh", {b.op("matmul", {x, w1}, {}, "fc1")});
  return b.finish({b.op("matmul", {h, w2}, {}, "fc2")});
}

TEST(Registry, AnUnknownNameGetsTheNearest) {
  EXPECT_EQ(message_of([] { small_registry()->get("matmull"); }),
            "unknown operation 'matmull'; nearest: matmul, matmul_nt, mul");
}

TEST(Builder, NamesAreUniqueAndShapesFollowTheFormula) {
  GraphBuilder b("g", small_registry());
  const TensorId x = b.input("x", {4, 3}), w = b.parameter("w", {3, 5});
  const TensorId y = b.op("matmul", {x, w}), z = b.op("matmul", {x, w}), t = b.op("transpose", {y});
  EXPECT_EQ(b.graph().tensor(y).name, "matmul");
  EXPECT_EQ(b.graph().tensor(z).name, "matmul_1");
  EXPECT_EQ(b.graph().ops[0].bound, b.graph().ops[1].bound);
  EXPECT_EQ(b.shape(t), (Shape{5, 4}));
  EXPECT_EQ(b.graph().tensor(y).sample_axis, 0);
  EXPECT_EQ(b.graph().tensor(t).sample_axis, 1);
  const TensorId gram = b.op("matmul", {t, x});  // the samples are summed over
  EXPECT_EQ(b.graph().tensor(gram).sample_axis, -1);
  EXPECT_EQ(b.graph().tensor(b.op("add", {gram, b.input("d", {3}, DType::kFloat64, -1)})).dtype, DType::kFloat64);
  EXPECT_NEAR(b.graph().tensor(w).initial_bound, 1 / std::sqrt(5.0), 1e-15);
}

TEST(Builder, BadOpsAreNamedWithTheirShapes) {
  GraphBuilder b("g", small_registry());
  const TensorId x = b.input("x", {4, 3}), w = b.parameter("w", {5, 2});
  EXPECT_NE(message_of([&] {
              b.op("matmul", {x, w}, {}, "fc");
            }).find("matmul 'fc' (x float32[4x3], w float32[5x2])"),
            std::string::npos);
  EXPECT_NE(message_of([&] { b.op("scale", {x}); }).find("attribute 'by' is missing"), std::string::npos);
  EXPECT_NE(message_of([&] {
              b.op("scale", {x}, {{"by", 2}, {"to", 1}});
            }).find("unknown attribute 'to'; it has: by"),
            std::string::npos);
  EXPECT_NE(message_of([&] { b.input("x", {2}); }).find("two tensors are named 'x'"), std::string::npos);
  EXPECT_NE(message_of([&] { b.op("tanh", {TensorId()}); }).find("an operand is missing"), std::string::npos);
}

TEST(Text, EverythingRoundTrips) {
  const auto registry = small_registry();
  GraphBuilder b("a \"quoted\" name", registry);
  const TensorId x = b.input("/conv/Conv_output, 0", {2, 2}, DType::kFloat64, 1);
  const double inf = std::numeric_limits<double>::infinity();
  Values values{.dtype = DType::kFloat64, .shape = {2, 3}, .real = {0.1, -0.0, inf, -inf, 1e-310, 5}};
  b.constant("list", values);
  b.constant("ints", {.dtype = DType::kInt64,
                      .shape = {2},
                      .integer = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}});
  b.constant("bits", {.dtype = DType::kBool, .shape = {3}, .integer = {1, 1, 1}});
  b.constant("nothing", {.dtype = DType::kFloat32, .shape = {0, 4}});
  Values wide{.dtype = DType::kFloat64, .shape = {100}}, narrow{.dtype = DType::kFloat32, .shape = {100}};
  for (int i = 0; i < 100; ++i) wide.real.push_back(std::sin(i)), narrow.real.push_back(i / 8.0);
  b.parameter("wide", wide);
  b.state("narrow", narrow);
  b.parameter("drawn", {2, 2}, 1.0 / 3, 1e-17, DType::kFloat64);
  b.set_source({"model.layers.0, \"a\"", "train.py:41"});
  b.set_cell(3, 1);
  b.op("scale", {x}, {{"by", 0.1}});
  const TensorId y = b.formula("mine", "f(x)[i, j] =\n s[i] = sum(j) x[i, j]\n x[i, j] / s[i]", {x})[0];
  const Graph graph = b.finish({y});

  const std::string text = print(graph);
  const Graph again = parse_graph(text, registry);
  EXPECT_EQ(print(again), text);
  ASSERT_EQ(again.tensors.size(), graph.tensors.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor &a = graph.tensors[i], &c = again.tensors[i];
    EXPECT_EQ(a.name, c.name);
    EXPECT_EQ(a.dtype, c.dtype);
    EXPECT_EQ(a.shape, c.shape);
    EXPECT_EQ(a.role, c.role);
    EXPECT_EQ(a.sample_axis, c.sample_axis);
    EXPECT_EQ(a.initial_bound, c.initial_bound);
    EXPECT_EQ(a.initial_fill, c.initial_fill);
    ASSERT_EQ(a.values != nullptr, c.values != nullptr);
    if (a.values) {
      EXPECT_EQ(*a.values, *c.values) << a.name;
    }
  }
  EXPECT_TRUE(std::signbit(again.tensor(again.find_tensor("list")).values->real[1]));
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    EXPECT_EQ(graph.ops[i].source, again.ops[i].source);
    EXPECT_EQ(graph.ops[i].attributes, again.ops[i].attributes);
    EXPECT_EQ(graph.ops[i].formula, again.ops[i].formula);
    EXPECT_EQ(again.ops[i].time_step, 3);
    EXPECT_EQ(again.ops[i].cell, 1);
  }
}

TEST(Text, ErrorsNameTheLine) {
  const std::string good =
      "graph g\n"
      "tensor x float32[4x3] input sample=0\n"
      "tensor w float32[3x3] parameter bound=0.5\n"
      "tensor y float32[4x3] activation sample=0\n"
      "op y = matmul(x, w) -> y\n"
      "inputs x\n"
      "outputs y\n";
  EXPECT_EQ(print(parse_graph(good, small_registry())), good);
  auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return message_of([&] { parse_graph(text.replace(at, from.size(), to), small_registry()); });
  };
  EXPECT_EQ(with("float32[4x3] input", "float31[4x3] input").substr(0, 19), "graph text, line 2:");
  EXPECT_EQ(with("matmul(x, w)", "matmul(x, v)"), "graph text, line 5: no tensor 'v' in the lines before");
  EXPECT_EQ(with("matmul(x, w)", "matmul(x, w"), "graph text, line 5: expected ',' before '->'");
  EXPECT_EQ(with("matmul(x", "matmol(x").substr(0, 54), "graph text, line 5: matmol 'y' (x float32[4x3], w floa");
  EXPECT_EQ(
      with("inputs", "input"),
      "graph text, line 6: a line begins with graph, tensor, op, inputs, outputs, loss or micro-batches, not 'input'");
  EXPECT_EQ(with("bound=0.5", "bound=half"), "graph text, line 3: 'half' is not a number");
  EXPECT_EQ(with("bound=0.5", "values=list:1;2"), "graph text, line 3: 2 values for a shape of 9 elements");
  EXPECT_EQ(with("tensor w", "tensor x"), "graph text, line 3: a second tensor 'x'");
  // The parser checks the lines against the formulas.
  EXPECT_NE(
      with("y float32[4x3]", "y float32[3x4]").find("result 'y' is float32[3x4], by the formula it is float32[4x3]"),
      std::string::npos);
  EXPECT_NE(with("activation sample=0", "activation").find("result 'y' has sample axis -1, by the formula it is 0"),
            std::string::npos);
  EXPECT_NE(with("y float32[4x3] activation", "y float32[4x3] state")
                .find("only activations and gradients are an op's results"),
            std::string::npos);
  EXPECT_NE(with("inputs x\n", "").find("'x' is input and must be among the graph's inputs"), std::string::npos);
}

// The text says where an op may run and with which ops, and this has to be possible.
TEST(Text, DeviceTypesAndGroups) {
  const auto text = [](const std::string& load, const std::string& first, const std::string& second) {
    return "graph g\n"
           "tensor x float32[4x3] input sample=0\n"
           "tensor w float32[3x3] parameter bound=0.5\n"
           "tensor a float32[4x3] activation sample=0\n"
           "tensor b float32[4x3] activation sample=0\n"
           "tensor c float32[4x3] activation sample=0\n"
           "op a = matmul(x, w) -> a" +
           load + "\nop b = matmul(a, w) -> b" + first + "\nop c = matmul(b, w) -> c" + second +
           "\ninputs x\noutputs c\n";
  };
  const std::string good = text(" device=cpu", " device=launch colocation=\"of c\"", " colocation=\"of c\"");
  const Graph graph = parse_graph(good, small_registry());
  EXPECT_EQ(print(graph), good);
  EXPECT_EQ(graph.ops[0].device_type, DeviceType::kCpu);
  EXPECT_EQ(graph.ops[1].device_type, DeviceType::kLaunch);
  EXPECT_EQ(graph.ops[2].colocation, "of c");
  EXPECT_TRUE(has_device_types(graph));
  const auto message = [&](const std::string& load, const std::string& first, const std::string& second) {
    return message_of([&] { parse_graph(text(load, first, second), small_registry()); });
  };
  EXPECT_EQ(message(" device=tpu", "", ""), "graph text, line 7: unknown device type 'tpu'");
  EXPECT_EQ(message(" device=launch", "", ""),
            "graph 'g', op 'a': a launch op runs where a gpu op of its colocation group does, and it is in none");
  EXPECT_EQ(message("", " device=launch colocation=\"p\"", " device=launch colocation=\"p\""),
            "graph 'g', op 'b': a launch op runs where a gpu op of its colocation group does, and 'p' has none");
  EXPECT_EQ(message(" device=cpu colocation=\"p\"", "", " colocation=\"p\""),
            "graph 'g': colocation group 'p' has the cpu op 'a' and the gpu op 'c', which no device runs both");
}

TEST(Verify, OrderAndReplacements) {
  const Graph graph = add_backward(two_layers(), {.kind = "mse"}, {});
  verify(graph);
  Graph cyclic = graph;
  std::swap(cyclic.ops[0], cyclic.ops[1]);
  for (std::size_t i : {0, 1}) cyclic.tensor(cyclic.ops[i].results[0]).producer = OpId(i);
  EXPECT_NE(message_of([&] { verify(cyclic); }).find("ops stand after the producers of their operands"),
            std::string::npos);

  Graph late = graph;  // fc2 reads w2 once more after its update
  Op again = late.op(late.find_op("fc2"));
  again.name = "late";
  again.results = {TensorId(late.tensors.size())};
  Tensor result = late.tensor(late.find_tensor("fc2"));
  result.name = "late";
  result.producer = OpId(late.ops.size());
  late.tensors.push_back(result);
  late.ops.push_back(again);
  EXPECT_NE(message_of([&] { verify(late); }).find("'late' reads 'w2' after 'w2.update' has replaced it"),
            std::string::npos);

  Graph unlinked = graph;
  for (Op& op : unlinked.ops)
    if (op.phase == Phase::kBackward) op.forward = {};
  EXPECT_NE(message_of([&] { verify(unlinked); }).find("a backward op belongs to a forward op"), std::string::npos);

  Graph kept = graph;
  kept.tensor(kept.find_tensor("w2.update")).replaces = {};
  EXPECT_NE(message_of([&] { verify(kept); }).find("replaces another tensor than its definition says"),
            std::string::npos);

  Graph other = graph;
  other.op(other.find_op("fc1")).formula = "f(a, b)[i, j] = sum(k) a[i, k] * b[j, k]";
  EXPECT_NE(message_of([&] { verify(other); }).find("its formula is not that of its definition"), std::string::npos);
  other.op(other.find_op("fc1")).bound =
      std::make_shared<const tdl::Bound>(tdl::bind(other.op(other.find_op("fc1")).formula, {{4, 3}, {3, 3}}));
  EXPECT_NE(message_of([&] { verify(other); }).find("its formula is not equal to that of the definition"),
            std::string::npos);
}

TEST(Autodiff, BackwardOpsAreLinkedAndKeepIndexNames) {
  const Graph graph = add_backward(two_layers(), {.kind = "mse"}, {.lr = 0.5, .weight_decay = 0.1});
  const Op& data = graph.op(graph.find_op("fc2.grad.a"));
  EXPECT_EQ(data.definition, "matmul_nt");  // its operands in that definition's order
  EXPECT_EQ(graph.op(data.forward).name, "fc2");
  EXPECT_EQ(graph.tensor(data.operands[1]).name, "w2");
  ASSERT_EQ(data.bound->indices.size(), 3u);
  for (const char* index : {"i", "j", "k"}) EXPECT_GE(data.bound->find_index(index), 0) << data.formula;
  EXPECT_EQ(graph.op(graph.find_op("tanh.grad.x")).definition, "tanh.grad.x");
  EXPECT_FALSE(graph.find_op("fc1.grad.a").valid());  // the data need no gradient
  EXPECT_EQ(graph.tensor(graph.find_tensor("fc2.grad.a")).role, Role::kGradient);
  const TensorId w1 = graph.find_tensor("w1");
  EXPECT_EQ(graph.tensor(graph.replacement_of(w1)).name, "w1.update");
  EXPECT_EQ(graph.op(graph.find_op("w1.update")).attributes.at("weight_decay"), 0.1);
  EXPECT_EQ(graph.outputs, std::vector<TensorId>{graph.loss});
}

TEST(Autodiff, SeveralReadersAreAddedOnce) {
  const Graph graph = add_backward(two_layers(true), {.kind = "mse"}, {});
  const Op& sum = graph.op(graph.find_op("w1.grad"));
  EXPECT_EQ(sum.definition, "add");
  EXPECT_EQ(graph.op(sum.forward).name, "fc1");
  EXPECT_EQ(graph.op(graph.find_op("w1.update")).operands[1], sum.results[0]);

  GraphBuilder b("square", small_registry());  // one op that reads w twice
  const TensorId w = b.parameter("w", {3});
  const Graph square = add_backward(b.finish({b.op("mul", {w, w})}), {.kind = "elementwise"}, {.lr = 1});
  std::map<TensorId, tdl::Array> values{{square.find_tensor("w"), tdl::real_array({3}, {1, -2, 3})}};
  reference_run(square, values);
  // The cotangent of y = w^2 is y itself: w' = w - 2 w w^2.
  EXPECT_EQ(values.at(square.find_tensor("w.update")).reals, (std::vector<double>{-1, 14, -51}));
  EXPECT_EQ(values.at(square.loss).reals, std::vector<double>{(1 + 16 + 81) / 6.0});
}

// A tied weight read as it is and transposed, a bias made of parameters alone, and a mask made of nothing.
TEST(OfSamples, ActivationsAndTheirGradients) {
  GraphBuilder b("tied", small_registry());
  const TensorId x = b.input("x", {3, 3}), w = b.parameter("w", {3, 3}), u = b.parameter("u", {3, 3});
  const TensorId mask = b.op("scale", {b.scalar("one", 1)}, {{"by", 2}}, "mask");
  const TensorId bias = b.op("tanh", {u}, {}, "bias");
  const TensorId h = b.op("tanh", {b.op("add", {b.op("matmul", {x, w}, {}, "fc1"), bias}, {}, "shifted")}, {}, "h");
  const TensorId y = b.op("matmul", {h, b.op("transpose", {w}, {}, "wt")}, {}, "fc2");
  b.op("scale", {mask}, {{"by", 3}}, "mask2");
  const Graph graph = add_backward(b.finish({y}), {.kind = "mse"}, {});
  const std::vector<char> of = sample_tensor_mask(graph);
  std::string samples, parameters;
  for (std::size_t t = 0; t < of.size(); ++t) (of[t] ? samples : parameters) += graph.tensors[t].name + " ";
  EXPECT_EQ(samples, "x fc1 shifted h fc2 labels loss loss.grad.y fc2.grad.a h.grad.x shifted.grad.a ");
  EXPECT_EQ(parameters,
            "w u one mask bias wt mask2 loss.grad fc2.grad.b wt.grad.x shifted.grad.b fc1.grad.b w.grad bias.grad.x lr "
            "w.update u.update ");
  EXPECT_TRUE(reads_samples(graph.op(graph.find_op("fc1.grad.b")), of));  // x and the gradient of fc1
  for (const char* op : {"wt", "wt.grad.x", "w.grad", "w.update", "mask2"})
    EXPECT_FALSE(reads_samples(graph.op(graph.find_op(op)), of)) << op;
}

// A weight and the state of an unrolled recurrence, each with several readers.
TEST(Autodiff, ContributionsAreAddedAsTheyCome) {
  constexpr int kSteps = 5;
  GraphBuilder b("unrolled", small_registry());
  const TensorId w = b.parameter("w", {3, 3}), u = b.parameter("u", {3, 3});
  TensorId h = b.input("x", {4, 3});
  for (int t = 0; t < kSteps; ++t) {
    b.set_cell(t, 0);
    h = b.op("tanh", {b.op("add", {b.op("matmul", {h, w}), b.op("mul", {h, b.op("matmul", {h, u})})})});
  }
  const Graph graph = add_backward(b.finish({h}), {.kind = "mse"}, {});
  const auto read_by = readers_by_tensor(graph);
  std::map<std::string, std::vector<int>> steps;  // by the first sum's name, of its chain
  std::map<TensorId, std::string> chain;          // by sum
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& sum = graph.ops[i];
    if (sum.phase != Phase::kBackward || sum.definition != "add") continue;
    const OpId contribution = graph.tensor(sum.operands[1]).producer;
    EXPECT_EQ(contribution.index() + 1, i) << sum.name;
    EXPECT_EQ(sum.forward, graph.op(contribution).forward) << sum.name;
    EXPECT_EQ(sum.time_step, graph.op(contribution).time_step) << sum.name;
    EXPECT_EQ(sum.cell, graph.op(contribution).cell) << sum.name;
    EXPECT_EQ(read_by[sum.operands[0].index()].size(), 1u) << "the sum so far is read by the next only: " << sum.name;
    const std::string& first = chain.try_emplace(sum.operands[0], sum.name).first->second;
    steps[chain[sum.results[0]] = first].push_back(sum.time_step);
  }
  EXPECT_EQ(steps.at("w.grad"), (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(steps.at("u.grad"), (std::vector<int>{3, 2, 1, 0}));
  for (const char* name : {"w", "u"})
    EXPECT_EQ(graph.op(graph.find_op(std::string(name) + ".update")).operands[1],
              graph.find_tensor(std::string(name) + ".grad_3"));
  for (int t = 1; t < kSteps; ++t)  // three readers of each state; the input of the first step needs no gradient
    EXPECT_EQ(steps.at(fmt::format("tanh{}.grad", t == 1 ? "" : fmt::format("_{}", t - 1))), (std::vector<int>{t, t}));
  EXPECT_EQ(steps.size(), 2u + kSteps - 1);
}

TEST(Autodiff, AResultThatNothingReadsHasGradientZero) {
  GraphBuilder b("halves", small_registry());
  const TensorId w = b.parameter("w", {5});
  const Graph graph = add_backward(b.finish({b.ops("halves", {w})[1]}), {.kind = "elementwise"}, {.lr = 1});
  std::map<TensorId, tdl::Array> values{{graph.find_tensor("w"), tdl::real_array({5}, {1, 2, 3, 4, 5})}};
  reference_run(graph, values);
  EXPECT_EQ(values.at(graph.find_tensor("w.update")).reals, (std::vector<double>{1, 2, 0, 0, 0}));
}

TEST(Autodiff, BadRequests) {
  GraphBuilder b("g", small_registry());
  const TensorId x = b.input("x", {3});
  const Graph plain = b.finish({b.op("tanh", {x})});
  EXPECT_NE(
      message_of([&] { add_backward(plain, {.kind = "mse"}, {}); }).find("no parameter lies behind the output 'tanh'"),
      std::string::npos);
  EXPECT_NE(message_of([&] {
              add_backward(two_layers(), {.kind = "l1"}, {});
            }).find("unknown loss 'l1'; there are: bce_with_logits, cross_entropy"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              add_backward(two_layers(), {.kind = "mse"}, {.kind = "lion"});
            }).find("unknown optimizer 'lion'"),
            std::string::npos);
  const Graph training = add_backward(two_layers(), {.kind = "mse"}, {});
  EXPECT_NE(message_of([&] { add_backward(training, {.kind = "mse"}, {}); }).find("is a training graph already"),
            std::string::npos);
  EXPECT_NE(message_of([&] { evaluation_graph(training); }).find("is a training graph"), std::string::npos);
}

TEST(Fold, ConstantsAreEvaluatedExactly) {
  GraphBuilder b("g", small_registry());
  const int64_t big = (int64_t{1} << 53) + 1;  // no float64
  const TensorId c = b.constant("c", {.dtype = DType::kInt64, .shape = {2}, .integer = {big, 1}});
  const TensorId d = b.op("add", {c, c}, {}, "d"), e = b.op("mul", {d, c}, {}, "e");
  const TensorId x = b.input("x", {2}, DType::kInt64, -1);
  const Graph folded = fold_constants(b.finish({b.op("add", {x, d}, {}, "y"), e}));
  ASSERT_EQ(folded.ops.size(), 1u);
  EXPECT_EQ(folded.ops[0].name, "y");
  EXPECT_FALSE(folded.find_tensor("c").valid());
  EXPECT_EQ(folded.tensor(folded.find_tensor("d")).values->integer, (std::vector<int64_t>{2 * big, 2}));
  EXPECT_EQ(folded.tensor(folded.outputs[1]).role, Role::kConstant);
}

TEST(IndexRange, TheSmallestExtentThatIsChosenFrom) {
  GraphBuilder b("g", small_registry());
  const TensorId ids = b.input("ids", {3, 4}, DType::kInt64), count = b.input("count", {3}, DType::kInt64),
                 x = b.input("x", {3, 4});
  const TensorId direct = b.op("embedding", {b.parameter("large", {9, 5}), ids});
  const TensorId behind = b.op("embedding", {b.parameter("small", {7, 5}), b.op("transpose", {ids})});
  const Graph graph = b.finish({direct, behind, b.op("add", {count, count}), b.op("tanh", {x})});
  EXPECT_EQ(index_range(graph, ids), (IndexRange{{0, 7}, {}}));
  EXPECT_EQ(index_range(graph, count), std::nullopt);
  EXPECT_EQ(index_range(graph, x), std::nullopt);
}

TEST(WithDtype, EveryFloatingTensorChanges) {
  const Graph graph = with_dtype(add_backward(two_layers(), {.kind = "mse"}, {.lr = 0.1}), DType::kFloat64);
  for (const Tensor& t : graph.tensors) EXPECT_EQ(t.dtype, DType::kFloat64) << t.name;
  EXPECT_EQ(graph.tensor(graph.find_tensor("lr")).values->dtype, DType::kFloat64);
}

// Two products of [4, 3] and [3, 3]; a hyperbolic tangent is none.
TEST(ModelFlops, AreThoseOfProductsAndTwiceAsManyBackward) {
  const Graph forward = two_layers();
  const double once = 2 * (2 * 4 * 3 * 3);
  EXPECT_EQ(model_flops(forward), once);
  const Graph training = add_backward(forward, {.kind = "mse"}, {});
  EXPECT_EQ(model_flops(training), 3 * once);
  EXPECT_EQ(model_flops(recompute_activations(training, "layer", false)), 3 * once);
  EXPECT_EQ(model_flops(in_micro_batches(training, 2)), 3 * once);
}

}  // namespace
}  // namespace partita
