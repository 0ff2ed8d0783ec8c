// Tests models in elementary operations (`fine`): they compute the same as the others, and Pesto's eleven have the
// sizes of formulas.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "partita/base/rng.h"
#include "partita/graph/reference.h"
#include "partita/models/models.h"
#include "partita/models/testing/training.h"

namespace partita {
namespace {

// By name: the loss, and the value of each parameter and state after a step.
std::map<std::string, std::vector<double>> after_a_step(const Graph& graph, uint64_t seed) {
  std::map<std::string, TensorId> sources;  // numbers are drawn in the order of names, which both graphs have
  for (std::size_t i = 0; i < graph.tensors.size(); ++i)
    if (!graph.tensors[i].producer.valid() && !graph.tensors[i].values) sources[graph.tensors[i].name] = TensorId(i);
  Rng rng(seed);
  std::map<TensorId, tdl::Array> values;
  for (const auto& [name, id] : sources) {
    const Tensor& t = graph.tensor(id);
    const std::size_t count = static_cast<std::size_t>(volume(t.shape));
    if (is_float(t.dtype)) {
      std::vector<double> numbers(count);
      for (double& v : numbers) v = t.initial_fill + std::max(t.initial_bound, 0.2) * (2 * rng.uniform() - 1);
      values[id] = tdl::real_array(t.shape, numbers);
    } else {
      std::vector<int64_t> numbers(count);
      for (int64_t& v : numbers) v = static_cast<int64_t>(rng.below(3));
      values[id] = tdl::int_array(t.shape, numbers);
    }
  }
  reference_run(graph, values);
  std::map<std::string, std::vector<double>> result{{"loss", values.at(graph.loss).reals}};
  for (const auto& [name, id] : sources)
    if (const TensorId now = graph.replacement_of(id); now.valid()) result[name] = values.at(now).reals;
  return result;
}

// With lr 1 a new weight is the weight less its gradient.
TEST(Fine, ComputesTheSame) {
  for (const char* model :
       {"rnnlm?batch=2,steps=3,hidden=4,vocabulary=5", "rnnlm?batch=2,steps=3,hidden=4,vocabulary=5,cell=gru",
        "nmt?batch=2,steps=3,hidden=4,vocabulary=5,layers=2", "nmt?batch=2,steps=2,hidden=4,vocabulary=5,cell=gru",
        "rnntc?batch=2,steps=2,hidden=4,vocabulary=5,layers=2", "transformer?batch=2,steps=3,layers=2,hidden=8,heads=2",
        "nasnet?batch=2,cells=1,filters=96,image=32,stem=2,classes=3,dropout=0",
        "encoder-decoder?batch=2,steps=3,layers=2,hidden=8,heads=2,vocabulary=5,dropout=0",
        "encoder-decoder?batch=2,steps=3,layers=1,hidden=8,heads=2,vocabulary=5,dropout=0,tied=0"}) {
    const uint64_t seed = 7;
    SCOPED_TRACE(fmt::format("{}, seed {}", model, seed));
    const std::string reference = std::string(model) + ",dtype=float64";
    const Graph coarse = training(reference, {.kind = "sgd", .lr = 1, .momentum = 0.9});
    const Graph fine = training(reference + ",fine=true", {.kind = "sgd?fine=1", .lr = 1, .momentum = 0.9});
    EXPECT_GT(fine.ops.size(), coarse.ops.size());
    const auto expected = after_a_step(coarse, seed), result = after_a_step(fine, seed);
    ASSERT_EQ(result.size(), expected.size());
    for (const auto& [name, values] : expected) {
      const std::vector<double>& got = result.at(name);
      ASSERT_EQ(got.size(), values.size()) << name;
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(got[i], values[i], 1e-12 * std::max(1.0, std::abs(values[i]))) << name << " " << i;
    }
  }
}

// An encoder's words may look ahead, a decoder's not: a later target word changes no earlier logits, an earlier one, or
// any source word, does.
TEST(EncoderDecoder, TheDecoderAloneIsCausal) {
  const Graph graph =
      build_model("zoo:encoder-decoder?batch=1,steps=3,layers=1,hidden=4,heads=2,vocabulary=5,dropout=0", {},
                  standard_ops())
          .graph;
  auto logits = [&](const std::vector<int64_t>& source, const std::vector<int64_t>& target) {
    Rng rng(3);
    std::map<TensorId, tdl::Array> values{{graph.find_tensor("source"), tdl::int_array({1, 3}, source)},
                                          {graph.find_tensor("target"), tdl::int_array({1, 3}, target)}};
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const Tensor& t = graph.tensors[i];
      if (t.role != Role::kParameter) continue;
      std::vector<double> numbers(static_cast<std::size_t>(volume(t.shape)));
      for (double& v : numbers) v = t.initial_fill + 2 * rng.uniform() - 1;
      values[TensorId(i)] = tdl::real_array(t.shape, numbers);
    }
    reference_run(graph, values);
    return values.at(graph.outputs[0]).reals;  // [1, 3, 5]
  };
  const std::vector<double> base = logits({1, 2, 3}, {1, 2, 3});
  auto first_change = [&](const std::vector<double>& other) {
    std::size_t i = 0;
    while (i < base.size() && base[i] == other[i]) ++i;
    return i / 5;
  };
  EXPECT_EQ(first_change(logits({1, 2, 3}, {1, 2, 4})), 2u);
  EXPECT_EQ(first_change(logits({1, 2, 3}, {1, 4, 3})), 1u);
  EXPECT_EQ(first_change(logits({1, 2, 4}, {1, 2, 3})), 0u);
}

// ---------------------------------------------------------------- Pesto's eleven, section 5.2

int64_t parameters(const Graph& graph) {
  int64_t count = 0;
  for (const Tensor& t : graph.tensors)
    if (t.role == Role::kParameter) count += volume(t.shape);
  return count;
}

int64_t lstm(int64_t width, int64_t hidden) { return 4 * hidden * (width + hidden + 1); }

int64_t rnnlm(int64_t layers, int64_t hidden, int64_t words) {
  return words * hidden + layers * lstm(hidden, hidden) + (hidden + 1) * words;
}

int64_t nmt(int64_t layers, int64_t hidden, int64_t words) {
  return 2 * words * hidden + 2 * layers * lstm(hidden, hidden) + 2 * hidden * hidden + hidden * words;
}

// Attention of four h x h matrices, feed-forward parts with biases, norms; one table.
int64_t encoder_decoder(int64_t layers, int64_t h, int64_t words) {
  const int64_t attention = 4 * h * h, feed_forward = 2 * h * 4 * h + 4 * h + h, norm = 2 * h;
  return words * h + layers * (3 * attention + 2 * feed_forward + 5 * norm);
}

// Figure 4 of NASNet, N cells a stage with `filters` channels in the first, channels of 96 at first, images skipped to.
int64_t nasnet(int64_t cells, int64_t filters) {
  auto norm = [](int64_t c) { return 2 * c; };
  auto point = [&](int64_t from, int64_t to) { return from * to + norm(to); };
  int64_t total = 3 * 96 * 9 + norm(96), x = 96, p = 0, x_rows = 1, p_rows = 1;  // channels, and 1/rows, of both inputs
  auto cell = [&](int64_t f, bool halves) {
    total += point(x, f);                                              // x to f channels
    if (p == 0) p = x;                                                 // the first cell takes it as it comes
    else if (p_rows != x_rows || p != f) total += point(p, f), p = f;  // two halves of f/2, if it has more rows
    auto from = [&](int64_t c, int64_t kernel) {                       // separable, of c channels
      return c * kernel * kernel + c * f + norm(f) + f * kernel * kernel + f * f + norm(f);
    };
    if (halves) total += from(f, 5) + 2 * from(p, 7) + from(p, 5) + from(f, 3);
    else total += 2 * from(f, 5) + 3 * from(f, 3);
    p = x, p_rows = x_rows;
    x = (halves ? 4 : 6) * f;
    if (halves) x_rows *= 2;
  };
  cell(filters / 4, true);
  cell(filters / 2, true);
  for (int stage = 0; stage < 3; ++stage) {
    if (stage > 0) {
      const int64_t skipped = p, skipped_rows = p_rows;
      cell(filters << stage, true);
      p = skipped, p_rows = skipped_rows;
    }
    for (int64_t i = 0; i < cells; ++i) cell(filters << stage, false);
  }
  return total + 24 * filters * 1000 + 1000;
}

struct Variant {
  std::string name, reference;
  int64_t parameters;
  std::map<std::string, int> forward;  // operations, by definition
};

std::map<std::string, int> lstms(int cells) { return {{"sigmoid", 3 * cells}, {"split", cells}, {"mul", 3 * cells}}; }

// Softmaxes and norms; `mul` is the scale of each attention and norm, and of the embeddings.
std::map<std::string, int> transformers(int layers) {
  return {{"exp", 3 * layers}, {"sqrt", 5 * layers}, {"relu", 2 * layers}, {"mul", 8 * layers + 2}};
}

// Two more concatenations behind the stem, and one behind each of two reductions if a cell's inputs differ in rows.
std::map<std::string, int> nasnets(int cells) {
  const int normal = 3 * cells, reductions = 4;
  return {
      {"concat", normal + reductions + 4}, {"average_pool", 3 * normal + 2 * reductions}, {"max_pool", 2 * reductions}};
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const auto& [layers, hidden] : {std::pair{2, 2048}, {4, 2048}, {16, 1024}})
    all.push_back({fmt::format("RNNLM-{}-{}", layers, hidden),
                   fmt::format("rnnlm?batch=128,layers={},hidden={}", layers, hidden), rnnlm(layers, hidden, 10000),
                   lstms(layers * 40)});
  for (const int layers : {2, 4})
    all.push_back({fmt::format("NMT-{}-1024", layers), fmt::format("nmt?batch=128,layers={}", layers),
                   nmt(layers, 1024, 32000), lstms(2 * layers * 40)});
  for (const auto& [layers, heads, hidden] : {std::tuple{10, 8, 1024}, {12, 8, 1024}, {6, 16, 2048}})
    all.push_back({fmt::format("Transformer-{}-{}-{}", layers, heads, hidden),
                   fmt::format("encoder-decoder?batch=32,layers={},heads={},hidden={}", layers, heads, hidden),
                   encoder_decoder(layers, hidden, 37000), transformers(layers)});
  for (const auto& [cells, filters] : {std::pair{4, 212}, {6, 148}, {6, 168}})
    all.push_back({fmt::format("NASNet-{}-{}", cells, filters),
                   fmt::format("nasnet?batch=32,cells={},filters={}", cells, 24 * filters), nasnet(cells, filters),
                   nasnets(cells)});
  return all;
}

std::string extents(const Graph& graph) {
  std::string text;
  for (TensorId id : graph.inputs)
    text += fmt::format(" {}[{}]", graph.tensor(id).name, fmt::join(graph.tensor(id).shape, "x"));
  return text;
}

// All of a step: forward, backward, updates.
TEST(Fine, PestosElevenVariants) {
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    const Graph graph = training(variant.reference + ",fine=true", {.kind = "sgd?fine=1", .momentum = 0.9});
    const Graph coarse = training(variant.reference);
    std::cout << fmt::format("{:21} {:6} ops ({} coarse), {:11} parameters,{}\n", variant.name, graph.ops.size(),
                             coarse.ops.size(), parameters(graph), extents(graph));
    EXPECT_EQ(parameters(graph), variant.parameters);
    EXPECT_GT(graph.ops.size(), 2 * coarse.ops.size());
    std::map<std::string, int> forward;
    int backward = 0, updates = 0, assigned = 0, replaced = 0;
    for (const Op& op : graph.ops) {
      forward[op.definition] += op.phase == Phase::kForward;
      backward += op.phase == Phase::kBackward;
      updates += op.phase == Phase::kUpdate;
      assigned += op.definition == "assign" || op.definition == "assign_sub";
      for (const char* composite :
           {"lstm_cell", "gate_linear", "layer_norm", "batch_norm", "attention", "softmax", "sgd"})
        EXPECT_FALSE(op.definition.starts_with(composite)) << op.name << " is " << op.definition;
    }
    for (const Tensor& t : graph.tensors) replaced += t.role == Role::kParameter;
    for (const auto& [definition, count] : variant.forward) EXPECT_EQ(forward[definition], count) << definition;
    EXPECT_EQ(assigned, 2 * replaced);  // a weight and its momentum
    EXPECT_GT(backward, forward["add"]);
    EXPECT_GE(updates, 5 * replaced);
  }
}

// Vaswani et al., table 3: 65 and 213 million in the base and the big model.
TEST(EncoderDecoder, HasThePublishedSizes) {
  const auto registry = standard_ops();
  EXPECT_NEAR(parameters(build_model("zoo:encoder-decoder?batch=2", {}, registry).graph), 65e6, 0.04 * 65e6);
  EXPECT_NEAR(parameters(build_model("zoo:encoder-decoder?batch=2,hidden=1024,heads=16", {}, registry).graph), 213e6,
              0.03 * 213e6);
}

}  // namespace
}  // namespace partita
