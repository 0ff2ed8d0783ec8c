// Tests attention against its composition of product, softmax and product: results and gradients, in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/reference.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

using tdl::Array;

struct Case {
  const char* name;
  int64_t heads, key_heads, queries, keys;
  int64_t causal = 0, offset = 0, window = 0;
  double scale = 0;
  enum { kNone, kBoolean, kReal, kTrained } mask = kNone;
  Shape mask_shape;
  double softcap = 0;
  bool sinks = false;  // a score beside the others, with no value
};

constexpr int64_t kBatch = 2, kSize = 3, kValueSize = 4;
const double kInfinity = std::numeric_limits<double>::infinity();

Array random(const Shape& shape, Rng& rng) {
  std::vector<double> values(static_cast<std::size_t>(volume(shape)));
  for (double& v : values) v = rng.normal();
  return tdl::real_array(shape, std::move(values));
}

tdl::Attributes list(const std::string& name, const Shape& values) {
  tdl::Attributes attributes;
  for (std::size_t i = 0; i < values.size(); ++i)
    attributes[fmt::format("{}.{}", name, i)] = static_cast<double>(values[i]);
  return attributes;
}

// Repeats each head of k or v for all heads of the queries that share it.
TensorId repeated(GraphBuilder& b, TensorId x, int64_t times) {
  if (times == 1) return x;
  const Shape s = b.shape(x);
  x = b.op("reshape", {x}, list("shape", {s[0], s[1], 1, s[2], s[3]}));
  x = b.op("expand", {x}, list("shape", {s[0], s[1], times, s[2], s[3]}));
  return b.op("reshape", {x}, list("shape", {s[0], s[1] * times, s[2], s[3]}));
}

// softmax of the scores and of a sink beside them, whose weight is left out.
TensorId weights_beside(GraphBuilder& b, TensorId s, TensorId sinks) {
  const Shape all = b.shape(s);
  TensorId column = b.op("reshape", {sinks}, list("shape", {1, all[1], 1, 1}));
  column = b.op("expand", {column}, list("shape", {all[0], all[1], all[2], 1}));
  s = b.op("softmax", {b.op("concat", {s, column}, {{"axis", 3}})}, {});
  return b.ops("split", {s}, {{"axis", 3}, {"sizes.0", static_cast<double>(all[3])}, {"sizes.1", 1}})[0];
}

// The loss, the result and the gradients of q, k, v, a trained mask and sinks.
std::vector<Array> run(const Case& c, bool composed) {
  const DType real = DType::kFloat64;
  Rng rng(17);
  GraphBuilder b(c.name, standard_ops());
  std::map<TensorId, Array> values;
  auto parameter = [&](const char* name, const Shape& shape) {
    const TensorId id = b.parameter(name, shape, 0, 0, real);
    values[id] = random(shape, rng);
    return id;
  };
  const TensorId q = parameter("q", {kBatch, c.heads, c.queries, kSize}),
                 k = parameter("k", {kBatch, c.key_heads, c.keys, kSize}),
                 v = parameter("v", {kBatch, c.key_heads, c.keys, kValueSize});
  TensorId mask;
  if (c.mask == Case::kTrained) mask = parameter("mask", c.mask_shape);
  if (c.mask == Case::kReal || c.mask == Case::kBoolean) {
    mask = b.input("mask", c.mask_shape, c.mask == Case::kReal ? real : DType::kBool, -1);
    std::vector<int64_t> on(static_cast<std::size_t>(volume(c.mask_shape)));
    std::vector<double> bias(on.size());
    for (std::size_t i = 0; i < on.size(); ++i) {
      // the first row of the mask hides everything
      on[i] = static_cast<int64_t>(i) >= c.mask_shape.back() && rng.below(3) > 0;
      bias[i] = on[i] ? rng.normal() : -kInfinity;
    }
    values[mask] = c.mask == Case::kReal ? tdl::real_array(c.mask_shape, bias) : tdl::int_array(c.mask_shape, on);
    if (c.mask == Case::kBoolean) values[mask].dtype = DType::kBool;
  }
  const TensorId sinks = c.sinks ? parameter("sinks", {c.heads}) : TensorId();
  TensorId o;
  if (!composed) {
    std::vector<TensorId> operands{q, k, v};
    if (mask.valid()) operands.push_back(mask);
    if (c.sinks) operands.push_back(sinks);
    o = b.op(c.sinks ? "attention_sinks" : "attention", operands,
             {{"causal", static_cast<double>(c.causal)},
              {"offset", static_cast<double>(c.offset)},
              {"window", static_cast<double>(c.window)},
              {"scale", c.scale},
              {"softcap", c.softcap}});
  } else {
    const int64_t times = c.heads / c.key_heads;
    TensorId s = b.op("matmul_nt", {q, repeated(b, k, times)});
    s = b.op("mul", {s, b.scalar("scale", c.scale > 0 ? c.scale : 1 / std::sqrt(static_cast<double>(kSize)), real)});
    if (c.softcap > 0) {
      const TensorId cap = b.scalar("cap", c.softcap, real);
      s = b.op("mul", {b.op("tanh", {b.op("div", {s, cap})}), cap});
    }
    if (c.mask == Case::kReal || c.mask == Case::kTrained) s = b.op("add", {s, mask});
    const TensorId hidden = b.scalar("hidden", -kInfinity, real);
    if (c.mask == Case::kBoolean) s = b.op("where", {mask, s, hidden});
    Values seen{.dtype = DType::kBool, .shape = {c.queries, c.keys}};
    for (int64_t i = 0; i < c.queries; ++i)
      for (int64_t j = 0; j < c.keys; ++j)
        seen.integer.push_back((!c.causal || j <= i + c.offset) && (c.window == 0 || i + c.offset < j + c.window));
    s = b.op("where", {b.constant("seen", std::move(seen)), s, hidden});
    const TensorId p = c.sinks ? weights_beside(b, s, sinks) : b.op("softmax", {s}, {{"masked", 1}});
    o = b.op("matmul", {p, repeated(b, v, times)});
  }
  const Graph graph = add_backward(b.finish({o}), {.kind = "mse"}, {});
  const TensorId labels = graph.find_tensor("labels");
  values[labels] = random(graph.tensor(labels).shape, rng);
  reference_run(graph, values);
  std::vector<Array> results{values.at(graph.loss), values.at(o)};
  for (const char* name : {"q", "k", "v", "mask", "sinks"}) {
    const OpId update = graph.find_op(std::string(name) + ".update");
    if (update.valid()) results.push_back(values.at(graph.op(update).operands[1]));
  }
  return results;
}

TEST(Attention, EqualsItsComposition) {
  for (const Case& c : {Case{"plain", 3, 3, 5, 7},
                        Case{"scaled", 1, 1, 4, 2, 0, 0, 0, 0.7},
                        Case{"causal", 3, 3, 5, 5, 1},
                        Case{"later queries", 2, 2, 3, 7, 1, 4},
                        Case{"earlier queries", 2, 2, 5, 4, 1, -2},
                        Case{"window", 2, 2, 6, 6, 1, 0, 2},
                        Case{"grouped", 6, 2, 4, 4, 1},
                        Case{"one key head", 4, 1, 3, 5},
                        Case{"boolean mask", 3, 3, 5, 7, 0, 0, 0, 0, Case::kBoolean, {5, 7}},
                        Case{"padding", 3, 3, 5, 5, 1, 0, 0, 0, Case::kBoolean, {2, 1, 1, 5}},
                        Case{"real mask", 3, 3, 5, 7, 0, 0, 0, 0, Case::kReal, {2, 1, 5, 7}},
                        Case{"position bias", 3, 3, 5, 7, 0, 0, 0, 0, Case::kTrained, {1, 3, 5, 7}},
                        Case{"grouped bias", 4, 2, 3, 3, 1, 0, 0, 0, Case::kTrained, {4, 3, 3}},
                        Case{"one bias", 2, 2, 3, 4, 0, 0, 0, 0, Case::kTrained, {3, 1}},
                        Case{"capped", 3, 3, 5, 5, 1, 0, 3, 0.8, Case::kNone, {}, 0.9},
                        Case{"capped bias", 4, 2, 3, 3, 1, 0, 0, 0, Case::kTrained, {4, 3, 3}, 1.3},
                        Case{"capped padding", 3, 3, 5, 5, 1, 0, 0, 0, Case::kBoolean, {2, 1, 1, 5}, 0.5},
                        Case{"sinks", 3, 3, 5, 7, 0, 0, 0, 0, Case::kNone, {}, 0, true},
                        Case{"grouped sinks", 6, 2, 5, 5, 1, 0, 2, 0.7, Case::kNone, {}, 0, true},
                        Case{"sinks and bias", 4, 2, 3, 3, 1, 0, 0, 0, Case::kTrained, {4, 3, 3}, 0, true},
                        Case{"sinks and padding", 3, 3, 5, 5, 1, 0, 0, 0, Case::kBoolean, {2, 1, 1, 5}, 0.5, true}}) {
    SCOPED_TRACE(c.name);
    const std::vector<Array> one = run(c, false), composed = run(c, true);
    ASSERT_EQ(one.size(), composed.size());
    ASSERT_EQ(one.size(), 5u + (c.mask == Case::kTrained) + c.sinks);
    for (std::size_t r = 0; r < one.size(); ++r) {
      ASSERT_EQ(one[r].shape, composed[r].shape);
      for (std::size_t i = 0; i < one[r].reals.size(); ++i)
        EXPECT_NEAR(one[r].reals[i], composed[r].reals[i], 1e-12) << "result " << r << ", element " << i;
    }
  }
}

// Rows that a window or a mask leaves out are not read: with split keys, each worker reads the rows that its queries
// see.
TEST(Attention, WindowsBoundWhatIsRead) {
  const auto registry = standard_ops();
  tdl::Attributes attributes{{"causal", 1}, {"window", 3}};
  const Shape shape{1, 12, 4};
  const auto bound = bind_instance(registry->get("attention"), attributes, {shape, shape, shape},
                                   std::vector<DType>(3, DType::kFloat32));
  const auto derived = tdl::derive(*bound, {2}, {tdl::parse_strategy("i")});
  ASSERT_TRUE(derived.has_value());
  EXPECT_EQ(tdl::closed_text(derived->boxes[1][1]), "[0,0]x[4,11]x[0,3]");
  EXPECT_LT(tdl::flops(*bound, derived->ranges[0]), 0.55 * tdl::flops(*bound));
}

TEST(Attention, RotaryTurnsPairs) {
  GraphBuilder b("rotary", standard_ops());
  const DType real = DType::kFloat64;
  const TensorId x = b.input("x", {1, 4}, real), c = b.input("c", {1, 2}, real), s = b.input("s", {1, 2}, real);
  const TensorId y = b.op("rotary", {x, c, s}), z = b.op("rotary", {x, c, s}, {{"interleaved", 1}});
  std::map<TensorId, Array> values{{x, tdl::real_array({1, 4}, {1, 2, 3, 4})},
                                   {c, tdl::real_array({1, 2}, {0.6, 0})},
                                   {s, tdl::real_array({1, 2}, {0.8, 1})}};
  reference_run(b.graph(), values);
  const std::vector<double> halves{0.6 - 2.4, -4, 1.8 + 0.8, 2}, pairs{0.6 - 1.6, 1.2 + 0.8, -4, 3};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(values.at(y).reals[i], halves[i], 1e-15);
    EXPECT_NEAR(values.at(z).reals[i], pairs[i], 1e-15);
  }
}

}  // namespace
}  // namespace partita
