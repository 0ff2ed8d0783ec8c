// Tests every operation: its formula against plain loops and published values, its gradient against numeric ones, its
// strategies against golden text.
#include "partita/ops/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/infer.h"
#include "partita/graph/reference.h"
#include "partita/ops/examples.h"

namespace partita {
namespace {

using tdl::Array;

std::string describe(const OpDefinition& definition, const OpDefinition::Example& example) {
  std::vector<std::string> shapes, attributes;
  for (const Shape& shape : example.shapes) shapes.push_back(fmt::format("[{}]", fmt::join(shape, "x")));
  for (const auto& [name, value] : example.attributes) attributes.push_back(fmt::format(" {}={}", name, value));
  return fmt::format("{}({}){}", definition.name, fmt::join(shapes, ", "), fmt::join(attributes, ""));
}

Array random_array(const Shape& shape, Rng& rng, double lo, double hi) {
  std::vector<double> values(static_cast<std::size_t>(volume(shape)));
  for (double& v : values) v = lo + (hi - lo) * rng.uniform();
  return tdl::real_array(shape, std::move(values));
}

// The op's one-op graph; operands are named a0, a1, ..; floating ones are parameters if `trained`.
struct OneOp {
  Graph graph;
  std::vector<TensorId> operands, results;
};

OneOp one_op(const std::shared_ptr<const OpRegistry>& registry, const OpDefinition& definition,
             const OpDefinition::Example& example, bool trained) {
  GraphBuilder build("one", registry);
  OneOp one;
  const std::vector<DType> dtypes = operand_dtypes(example);
  for (std::size_t k = 0; k < example.shapes.size(); ++k) {
    const std::string name = fmt::format("a{}", k);
    const bool replaced = std::find(definition.replaces.begin(), definition.replaces.end(), static_cast<int>(k)) !=
                          definition.replaces.end();
    const bool parameter = replaced || (trained && is_float(dtypes[k]));
    one.operands.push_back(parameter ? build.parameter(name, example.shapes[k], 1, 0, dtypes[k])
                                     : build.input(name, example.shapes[k], dtypes[k]));
  }
  one.results = build.ops(definition.name, one.operands, example.attributes);
  one.graph = build.finish({one.results[0]});
  return one;
}

std::map<TensorId, Array> operand_values(const OneOp& one, const OpDefinition& definition,
                                         const OpDefinition::Example& example, Rng& rng) {
  std::map<TensorId, Array> values;
  const std::vector<Array> arrays = random_operands(definition, example, rng);
  for (std::size_t k = 0; k < arrays.size(); ++k) values[one.operands[k]] = arrays[k];
  return values;
}

TEST(Ops, EveryExampleBindsAndRuns) {
  const auto registry = standard_ops();
  for (const OpDefinition* definition : registry->all())
    for (const auto& example : definition->examples) {
      SCOPED_TRACE(describe(*definition, example));
      const OneOp one = one_op(registry, *definition, example, false);
      Rng rng(7);
      std::map<TensorId, Array> values = operand_values(one, *definition, example, rng);
      reference_run(one.graph, values);
      for (TensorId id : one.results) EXPECT_EQ(values.at(id).shape, one.graph.tensor(id).shape);
      EXPECT_FALSE(definition->summary.empty());
      EXPECT_EQ(print(parse_graph(print(one.graph), registry)), print(one.graph));
    }
}

// ---------------------------------------------------------------- values

Array run(const std::string& definition, const std::vector<Array>& operands, const tdl::Attributes& attributes = {},
          std::size_t result = 0) {
  GraphBuilder build("one", standard_ops());
  std::vector<TensorId> ids;
  std::map<TensorId, Array> values;
  for (const Array& operand : operands) {
    ids.push_back(build.input(fmt::format("a{}", ids.size()), operand.shape, operand.dtype));
    values[ids.back()] = operand;
  }
  const std::vector<TensorId> results = build.ops(definition, ids, attributes);
  reference_run(build.graph(), values);
  return values.at(results.at(result));
}

void expect_near(const Array& array, const Shape& shape, const std::vector<double>& expected,
                 double tolerance = 1e-12) {
  ASSERT_EQ(array.shape, shape);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(array.at(static_cast<int64_t>(i)), expected[i], tolerance) << "element " << i;
}

std::vector<double> counted(int64_t n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return values;
}

TEST(Ops, ConvolutionEqualsLoops) {
  struct Case {
    Shape x, w;
    int64_t sh, sw, dh, dw, pt, pl, pb, pr, groups;
  };
  Rng rng(11);
  for (const Case& c : {Case{{2, 3, 9, 5}, {4, 3, 3, 3}, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                        {{2, 3, 11, 9}, {3, 3, 3, 2}, 2, 3, 2, 1, 1, 0, 2, 1, 1},
                        {{1, 6, 5, 4}, {6, 2, 3, 3}, 1, 1, 1, 1, 1, 1, 1, 1, 3}}) {
    const Array x = random_array(c.x, rng, -1, 1), w = random_array(c.w, rng, -1, 1),
                b = random_array({c.w[0]}, rng, -1, 1);
    const int64_t Y = (c.x[2] + c.pt + c.pb - c.dh * (c.w[2] - 1) - 1) / c.sh + 1,
                  Z = (c.x[3] + c.pl + c.pr - c.dw * (c.w[3] - 1) - 1) / c.sw + 1;
    std::vector<double> expected;
    for (int64_t n = 0; n < c.x[0]; ++n)
      for (int64_t o = 0; o < c.w[0]; ++o)
        for (int64_t y = 0; y < Y; ++y)
          for (int64_t z = 0; z < Z; ++z) {
            double sum = b.reals[o];
            const int64_t group = o / (c.w[0] / c.groups);
            for (int64_t i = 0; i < c.w[1]; ++i)
              for (int64_t r = 0; r < c.w[2]; ++r)
                for (int64_t t = 0; t < c.w[3]; ++t) {
                  const int64_t u = y * c.sh + r * c.dh - c.pt, v = z * c.sw + t * c.dw - c.pl;
                  if (u < 0 || v < 0 || u >= c.x[2] || v >= c.x[3]) continue;
                  sum += x.reals[((n * c.x[1] + group * c.w[1] + i) * c.x[2] + u) * c.x[3] + v] *
                         w.reals[((o * c.w[1] + i) * c.w[2] + r) * c.w[3] + t];
                }
            expected.push_back(sum);
          }
    const auto d = [](int64_t v) { return static_cast<double>(v); };
    expect_near(run("conv2d", {x, w, b},
                    {{"sh", d(c.sh)},
                     {"sw", d(c.sw)},
                     {"dh", d(c.dh)},
                     {"dw", d(c.dw)},
                     {"pt", d(c.pt)},
                     {"pl", d(c.pl)},
                     {"pb", d(c.pb)},
                     {"pr", d(c.pr)},
                     {"groups", d(c.groups)}}),
                {c.x[0], c.w[0], Y, Z}, expected);
  }
}

TEST(Ops, PoolingTakesTheFirstWinner) {
  const Array x = tdl::real_array({1, 1, 3, 4}, {1, 5, 5, 2, 5, 0, 5, 1, 3, 3, -1, 9});
  const tdl::Attributes windows{{"kh", 2}, {"kw", 2}, {"sh", 1}, {"sw", 2}};
  expect_near(run("max_pool", {x}, windows), {1, 1, 2, 2}, {5, 5, 5, 9});
  expect_near(run("max_pool", {x}, windows, 1), {1, 1, 2, 2}, {1, 0, 0, 3});
  // PyTorch's `ceil` drops a window that would begin in the padding behind the input.
  const tdl::Attributes ceil{{"kh", 2}, {"kw", 2}, {"sh", 2}, {"sw", 2}, {"ceil", 1}};
  expect_near(run("max_pool", {x}, ceil), {1, 1, 2, 2}, {5, 5, 3, 9});
  expect_near(run("average_pool", {x}, ceil), {1, 1, 2, 2}, {11 / 4.0, 13 / 4.0, 3, 4});
  const tdl::Attributes padded{{"kh", 3}, {"kw", 3}, {"sh", 2}, {"sw", 2}, {"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}};
  expect_near(run("average_pool", {x}, padded), {1, 1, 2, 2}, {11 / 9.0, 18 / 9.0, 11 / 9.0, 17 / 9.0});
  tdl::Attributes counted = padded;
  counted["count_padding"] = 0;
  expect_near(run("average_pool", {x}, counted), {1, 1, 2, 2}, {11 / 4.0, 18 / 6.0, 11 / 4.0, 17 / 6.0});
  expect_near(run("global_average_pool", {x}), {1, 1, 1, 1}, {38 / 12.0});
}

TEST(Ops, SoftmaxFamily) {
  const Array x = tdl::real_array({2, 3}, {1, 2, 3, 1000, 1000, 1000});
  const double s = std::exp(-2) + std::exp(-1) + 1;
  expect_near(run("softmax", {x}), {2, 3}, {std::exp(-2) / s, std::exp(-1) / s, 1 / s, 1 / 3.0, 1 / 3.0, 1 / 3.0});
  expect_near(run("log_softmax", {x}), {2, 3},
              {-2 - std::log(s), -1 - std::log(s), -std::log(s), -std::log(3), -std::log(3), -std::log(3)});
  expect_near(run("softmax", {x}, {{"axis", 0}}), {2, 3}, {0, 0, 0, 1, 1, 1});
  const Array labels = tdl::int_array({2}, {0, 2});
  expect_near(run("cross_entropy", {x, labels}), {}, {(2 + std::log(s) + std::log(3)) / 2});
}

// torch.nn.CrossEntropyLoss() has the same means; with no label at all its mean is NaN.
TEST(Ops, LabelsThatDoNotCount) {
  const Array x = tdl::real_array({3, 3}, {1, 2, 3, 1000, 1000, 1000, 3, 1, -7});
  const double s = std::exp(-2) + std::exp(-1) + 1;
  const Array one = tdl::int_array({3}, {0, -100, -100}), none = tdl::int_array({3}, {-100, -100, -100}),
              two = tdl::int_array({3}, {0, 1, -100});
  auto count = [](const Array& labels) { return run("label_count", {labels}); };
  EXPECT_EQ(count(two).ints, std::vector<int64_t>{2});
  expect_near(run("masked_cross_entropy", {x, one, count(one)}), {}, {2 + std::log(s)});
  expect_near(run("masked_cross_entropy", {x, two, count(two)}), {}, {(2 + std::log(s) + std::log(3)) / 2});
  expect_near(run("masked_cross_entropy", {x, none, count(none)}), {}, {0}, 0);
  const Array lse = run("masked_cross_entropy", {x, two, count(two)}, {}, 1), g = tdl::real_array({}, {6});
  expect_near(run("masked_cross_entropy_grad", {x, two, count(two), lse, g}), {3, 3},
              {3 * (std::exp(-2) / s - 1), 3 * std::exp(-1) / s, 3 / s, 1, -2, 1, 0, 0, 0});
  expect_near(run("masked_cross_entropy_grad", {x, none, count(none), lse, g}), {3, 3}, std::vector<double>(9, 0), 0);
}

TEST(Ops, MaskedSoftmaxRowsAreZero) {
  const double inf = std::numeric_limits<double>::infinity();
  const Array x = tdl::real_array({2, 3}, {-inf, -inf, -inf, 0, -inf, 0});
  expect_near(run("softmax", {x}, {{"masked", 1}}), {2, 3}, {0, 0, 0, 0.5, 0, 0.5});
  EXPECT_TRUE(std::isnan(run("softmax", {x}).at(0)));
}

// Rows with means 3.5 and 0.5, variances 5.25 and 2.25.
TEST(Ops, NormsWithinASample) {
  const Array x = tdl::real_array({2, 4}, {1, 2, 4, 7, -1, 0, 0, 3}), w = tdl::real_array({4}, {1, 2, 3, 4}),
              b = tdl::real_array({4}, {0.5, 0, 0, -1});
  const double d0 = std::sqrt(5.25 + 0.1), d1 = std::sqrt(2.25 + 0.1);
  const tdl::Attributes eps{{"eps", 0.1}};
  expect_near(run("layer_norm", {x, w, b}, eps), {2, 4},
              {-2.5 / d0 + 0.5, -3 / d0, 1.5 / d0, 14 / d0 - 1, -1.5 / d1 + 0.5, -1 / d1, -1.5 / d1, 10 / d1 - 1});
  expect_near(run("layer_norm", {x}, eps, 1), {2}, {3.5, 0.5});
  expect_near(run("layer_norm", {x}, eps, 2), {2}, {1 / d0, 1 / d1});
  const double r0 = std::sqrt(17.5 + 0.1), r1 = std::sqrt(2.5 + 0.1);
  expect_near(run("rms_norm", {x, w}, eps), {2, 4}, {1 / r0, 4 / r0, 12 / r0, 28 / r0, -1 / r1, 0, 0, 12 / r1});
  const double g0 = std::sqrt(0.25 + 0.1), g1 = std::sqrt(2.25 + 0.1);  // pairs of channels
  expect_near(run("group_norm", {x, w, b}, {{"eps", 0.1}, {"groups", 2}}), {2, 4},
              {-0.5 / g0 + 0.5, 1 / g0, -4.5 / g1, 6 / g1 - 1, -0.5 / g0 + 0.5, 1 / g0, -4.5 / g1, 6 / g1 - 1});
  const Array all = tdl::real_array({1, 2, 4}, x.reals);
  Array whole = run("layer_norm", {all}, {{"axes", 2}});
  double sum = 0, squares = 0;
  for (double v : whole.reals) sum += v, squares += v * v;
  EXPECT_NEAR(sum, 0, 1e-12);
  EXPECT_NEAR(squares, 8, 1e-4);
}

TEST(Ops, DropoutKeepsTheMeanAndItsGradientTheMask) {
  GraphBuilder build("drop", standard_ops());
  const TensorId x = build.parameter("x", {100, 100}, 0, 1, DType::kFloat64);
  const TensorId y = build.op("dropout", {x}, {{"p", 0.25}}, "drop");
  const Graph forward = build.finish({y});
  const Graph training = add_backward(forward, {.kind = "mse"}, {});
  std::map<TensorId, Array> values{
      {x, tdl::real_array({100, 100}, std::vector<double>(10000, 1))},
      {training.find_tensor("labels"), tdl::real_array({100, 100}, std::vector<double>(10000, -1))}};
  reference_run(training, values);
  int dropped = 0;
  TensorId gradient;
  for (const Op& op : training.ops) {
    if (op.definition == "sgd") gradient = op.operands[1];
    if (op.phase == Phase::kBackward && op.definition == "dropout") {
      EXPECT_EQ(training.op(op.forward).name, "drop");
    }
  }
  for (std::size_t i = 0; i < 10000; ++i) {
    const double v = values.at(y).reals[i];
    dropped += v == 0;
    EXPECT_TRUE(v == 0 || std::abs(v - 4 / 3.0) < 1e-12) << v;
    EXPECT_EQ(values.at(gradient).reals[i] == 0, v == 0);
  }
  EXPECT_NEAR(dropped, 2500, 150);
  EXPECT_EQ(training.op(training.tensor(gradient).producer).definition, "dropout");
  EXPECT_TRUE(evaluation_graph(forward).ops.empty());
}

TEST(Ops, AlongAnAxis) {
  const Array x = tdl::real_array({2, 4}, {3, 1, 3, 2, 0, 5, -1, 5});
  expect_near(run("cumsum", {x}, {{"axis", 1}}), {2, 4}, {3, 4, 7, 9, 0, 5, 4, 9});
  expect_near(run("cumsum", {x}, {{"axis", 1}, {"exclusive", 1}}), {2, 4}, {0, 3, 4, 7, 0, 0, 5, 4});
  expect_near(run("cumsum", {x}, {{"axis", 1}, {"reverse", 1}}), {2, 4}, {9, 6, 5, 2, 9, 9, 4, 5});
  EXPECT_EQ(run("cumsum", {tdl::int_array({3}, {1, 2, 3})}).ints, (std::vector<int64_t>{1, 3, 6}));
  expect_near(run("top_k", {x}, {{"k", 3}}), {2, 3}, {3, 3, 2, 5, 5, 0});
  expect_near(run("top_k", {x}, {{"k", 3}}, 1), {2, 3}, {0, 2, 3, 1, 3, 0}, 0);
  expect_near(run("top_k", {x}, {{"k", 1}, {"largest", 0}, {"axis", 0}}), {1, 4}, {0, 1, -1, 2});
  const Array ids = tdl::int_array({2, 2}, {3, 0, 1, 1}), u = tdl::real_array({2, 2}, {10, 20, 30, 40});
  expect_near(run("gather_elements", {x, ids}, {{"axis", 1}}), {2, 2}, {2, 3, 5, 5}, 0);
  expect_near(run("scatter_elements", {x, ids, u}, {{"axis", 1}}), {2, 4}, {20, 1, 3, 10, 0, 40, -1, 5}, 0);
  expect_near(run("scatter_add_elements", {x, ids, u}, {{"axis", 1}}), {2, 4}, {23, 1, 3, 12, 0, 75, -1, 5}, 0);
}

// Experts chosen, places given out, dispatched and combined by plain loops: several groups, ties, and more choices than
// places.
TEST(Ops, ExpertsTakeTokensUpToTheirCapacity) {
  struct Case {
    int64_t groups, tokens, width, experts, choices, capacity;
  };
  Rng rng(23);
  int dropped = 0, ties = 0;
  for (const Case& c :
       {Case{1, 9, 3, 4, 2, 3}, Case{3, 7, 2, 3, 1, 2}, Case{2, 8, 2, 5, 3, 8}, Case{2, 6, 1, 2, 2, 1}}) {
    std::vector<double> gates;  // of few different values: many are equal
    for (int64_t i = 0; i < c.groups * c.tokens * c.experts; ++i)
      gates.push_back(0.25 * static_cast<double>(rng.below(4)));
    const Array p = tdl::real_array({c.groups, c.tokens, c.experts}, gates);
    const Array x = random_array({c.groups, c.tokens, c.width}, rng, -1, 1);
    const Array y = random_array({c.groups, c.experts, c.capacity, c.width}, rng, -1, 1);
    const tdl::Attributes choose{{"k", static_cast<double>(c.choices)}};
    const Array w = run("top_k", {p}, choose), ix = run("top_k", {p}, choose, 1), place = run("expert_place", {ix});

    std::vector<double> places(static_cast<std::size_t>(volume(ix.shape))),
        dispatched(static_cast<std::size_t>(volume(y.shape))), combined(static_cast<std::size_t>(volume(x.shape)));
    double balance = 0;
    for (int64_t g = 0; g < c.groups; ++g) {
      std::vector<std::vector<int64_t>> order;  // by token: its choices, best first, the lower expert of equals
      std::vector<int64_t> first(static_cast<std::size_t>(c.experts));
      for (int64_t t = 0; t < c.tokens; ++t) {
        const double* gate = &gates[static_cast<std::size_t>((g * c.tokens + t) * c.experts)];
        std::vector<int64_t> experts(static_cast<std::size_t>(c.experts));
        std::iota(experts.begin(), experts.end(), 0);
        std::stable_sort(experts.begin(), experts.end(), [&](int64_t a, int64_t b) { return gate[a] > gate[b]; });
        for (int64_t k = 0; k + 1 < c.experts && k < c.choices; ++k) ties += gate[experts[k]] == gate[experts[k + 1]];
        order.push_back(experts);
        ++first[experts[0]];
      }
      for (int64_t e = 0; e < c.experts; ++e)
        for (int64_t t = 0; t < c.tokens; ++t)
          balance += static_cast<double>(first[e]) * gates[(g * c.tokens + t) * c.experts + e];
      std::vector<int64_t> taken(static_cast<std::size_t>(c.experts));
      for (int64_t k = 0; k < c.choices; ++k)
        for (int64_t t = 0; t < c.tokens; ++t) {
          const int64_t e = order[t][k], at = taken[e]++, choice = (g * c.tokens + t) * c.choices + k;
          EXPECT_EQ(ix.ints[choice], e);
          places[choice] = static_cast<double>(at);
          if (at >= c.capacity) {
            ++dropped;
            continue;
          }
          const double weight = gates[(g * c.tokens + t) * c.experts + e];
          for (int64_t d = 0; d < c.width; ++d) {
            const int64_t token = (g * c.tokens + t) * c.width + d,
                          slot = ((g * c.experts + e) * c.capacity + at) * c.width + d;
            dispatched[slot] = x.reals[token];
            combined[token] += weight * y.reals[slot];
          }
        }
    }
    expect_near(place, ix.shape, places);
    expect_near(run("expert_dispatch", {x, ix, place},
                    {{"experts", static_cast<double>(c.experts)}, {"capacity", static_cast<double>(c.capacity)}}),
                y.shape, dispatched);
    expect_near(run("expert_combine", {y, ix, place, w}), x.shape, combined);
    const double tokens = static_cast<double>(c.tokens);
    expect_near(run("load_balance", {p, ix}), {},
                {balance / (tokens * tokens) * static_cast<double>(c.experts) / static_cast<double>(c.groups)});
  }
  EXPECT_GT(dropped, 10);
  EXPECT_GT(ties, 10);
}

TEST(Ops, MoreOfOneValue) {
  const Array x = tdl::real_array({6}, {-2.5, -0.5, 0.5, 1.5, 2.5, 0});
  expect_near(run("round", {x}), {6}, {-2, 0, 0, 2, 2, 0}, 0);
  expect_near(run("ceil", {x}), {6}, {-2, 0, 1, 2, 3, 0}, 0);
  std::vector<double> softplus, mish, elu;
  for (double v : x.reals) {
    softplus.push_back(std::log1p(std::exp(v)));
    mish.push_back(v * std::tanh(softplus.back()));
    elu.push_back(v > 0 ? v : 0.5 * std::expm1(v));
  }
  expect_near(run("softplus", {x}), {6}, softplus);
  expect_near(run("mish", {x}), {6}, mish);
  expect_near(run("elu", {x}, {{"alpha", 0.5}}), {6}, elu);
  const Array far = tdl::real_array({4}, {-800, -3, 3, 800});
  expect_near(run("softplus", {far}), {4}, {0, std::log1p(std::exp(-3)), std::log1p(std::exp(3)), 800});
  expect_near(run("hard_sigmoid", {far}), {4}, {0, 0, 1, 1});
  expect_near(run("hard_swish", {x}), {6},
              {-2.5 * 0.5 / 6, -0.5 * 2.5 / 6, 0.5 * 3.5 / 6, 1.5 * 4.5 / 6, 2.5 * 5.5 / 6, 0});
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Array odd = tdl::real_array({4}, {nan, inf, -inf, 1});
  expect_near(run("is_nan", {odd}), {4}, {1, 0, 0, 0}, 0);
  expect_near(run("is_inf", {odd}), {4}, {0, 1, 1, 0}, 0);
  const Array y = tdl::real_array({2}, {0.5, -800}), t = tdl::real_array({2}, {0.25, 0});
  expect_near(run("bce_with_logits", {y, t}), {}, {(std::log1p(std::exp(0.5)) - 0.125) / 2});
  expect_near(run("l1", {y, t}), {}, {800.25 / 2});
  expect_near(run("huber", {y, t}), {}, {(0.03125 + 799.5) / 2});
}

TEST(Ops, BatchNormAndRunningStatistics) {
  // PyTorch 2.11, torch.nn.BatchNorm1d(1), eps=1e-5, momentum=0.1 on [1, 2, 4, 7]: running_mean 0.35, running_var 1.6
  // (unbiased).
  GraphBuilder build("bn", standard_ops());
  const TensorId x = build.input("x", {4, 1}, DType::kFloat64), w = build.parameter("w", {1}, 0, 1, DType::kFloat64),
                 b = build.parameter("b", {1}, 0, 0, DType::kFloat64);
  const TensorId mean = build.state("mean", {1}, 0, DType::kFloat64),
                 variance = build.state("variance", {1}, 1, DType::kFloat64);
  const TensorId y = batch_norm_training(build, x, w, b, mean, variance, 1e-5, 0.1, "norm");
  const Graph graph = build.finish({y});
  std::map<TensorId, Array> values{{x, tdl::real_array({4, 1}, {1, 2, 4, 7})},
                                   {w, tdl::real_array({1}, {1})},
                                   {b, tdl::real_array({1}, {0})},
                                   {mean, tdl::real_array({1}, {0})},
                                   {variance, tdl::real_array({1}, {1})}};
  reference_run(graph, values);
  const double deviation = std::sqrt(5.25 + 1e-5);
  expect_near(values.at(y), {4, 1}, {-2.5 / deviation, -1.5 / deviation, 0.5 / deviation, 3.5 / deviation});
  expect_near(values.at(graph.replacement_of(mean)), {1}, {0.35});
  expect_near(values.at(graph.replacement_of(variance)), {1}, {0.9 + 0.1 * 7});
  EXPECT_EQ(graph.tensor(y).sample_axis, 0);

  const Graph evaluation = evaluation_graph(graph);
  ASSERT_EQ(evaluation.ops.size(), 1u);
  EXPECT_EQ(evaluation.ops[0].name, "norm");
  EXPECT_EQ(evaluation.ops[0].definition, "batch_norm_inference");
  std::map<TensorId, Array> given;
  for (const char* name : {"x", "w", "b", "mean", "variance"})
    given[evaluation.find_tensor(name)] = values.at(graph.find_tensor(name));
  reference_run(evaluation, given);
  expect_near(given.at(evaluation.outputs[0]), {4, 1},
              {1 / std::sqrt(1 + 1e-5), 2 / std::sqrt(1 + 1e-5), 4 / std::sqrt(1 + 1e-5), 7 / std::sqrt(1 + 1e-5)});
}

TEST(Ops, ShapesMoveValues) {
  for (const auto& [from, to] : std::vector<std::pair<Shape, Shape>>{{{4, 6}, {8, 3}},
                                                                     {{4, 6}, {3, 8}},
                                                                     {{6, 4}, {4, 6}},
                                                                     {{2, 3, 4}, {24}},
                                                                     {{24}, {2, 1, 3, 4}},
                                                                     {{6, 10, 2}, {4, 15, 2}},
                                                                     {{1, 5}, {5, 1, 1}},
                                                                     {{9, 10}, {6, 15}},
                                                                     {{}, {1, 1}},
                                                                     {{8, 9, 5}, {12, 30}}}) {
    tdl::Attributes shape;
    for (std::size_t a = 0; a < to.size(); ++a) shape[fmt::format("shape.{}", a)] = static_cast<double>(to[a]);
    SCOPED_TRACE(fmt::format("[{}] -> [{}]", fmt::join(from, "x"), fmt::join(to, "x")));
    expect_near(run("reshape", {tdl::real_array(from, counted(volume(from)))}, shape), to, counted(volume(to)), 0);
  }
  const Array x = tdl::real_array({2, 3}, counted(6));
  expect_near(run("flatten", {tdl::real_array({2, 3, 2}, counted(12))}), {2, 6}, counted(12), 0);
  expect_near(run("squeeze", {tdl::real_array({1, 2, 1, 3}, counted(6))}), {2, 3}, counted(6), 0);
  expect_near(run("squeeze", {tdl::real_array({1, 2, 1, 3}, counted(6))}, {{"axes.0", 2}}), {1, 2, 3}, counted(6), 0);
  expect_near(run("unsqueeze", {x}, {{"axes.0", 0}, {"axes.1", -2}}), {1, 2, 1, 3}, counted(6), 0);
  expect_near(run("transpose", {x}), {3, 2}, {0, 3, 1, 4, 2, 5}, 0);
  expect_near(run("slice", {x},
                  {{"starts.0", 1}, {"starts.1", 2}, {"sizes.0", 1}, {"sizes.1", 2}, {"steps.0", 1}, {"steps.1", -2}}),
              {1, 2}, {5, 3}, 0);
  expect_near(run("pad", {x}, {{"before.0", 0}, {"before.1", 1}, {"after.0", 1}, {"after.1", -1}, {"value", 7}}),
              {3, 3}, {7, 0, 1, 7, 3, 4, 7, 7, 7}, 0);
  expect_near(run("concat", {x, x}, {{"axis", 1}}), {2, 6}, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}, 0);
  expect_near(run("split", {x}, {{"axis", 1}, {"sizes.0", 1}, {"sizes.1", 2}}, 1), {2, 2}, {1, 2, 4, 5}, 0);
  expect_near(run("expand", {tdl::real_array({2, 1}, {3, 4})}, {{"shape.0", 2}, {"shape.1", 2}, {"shape.2", 2}}),
              {2, 2, 2}, {3, 3, 4, 4, 3, 3, 4, 4}, 0);
  expect_near(run("gather", {x, tdl::int_array({2}, {2, 0})}, {{"axis", 1}}), {2, 2}, {2, 0, 5, 3}, 0);
}

TEST(Ops, ReductionsCastsAndIntegers) {
  const Array x = tdl::real_array({2, 3}, {3, -1, 2, 5, 0, 5});
  expect_near(run("reduce_sum", {x}), {}, {14});
  expect_near(run("reduce_mean", {x}, {{"axes.0", 0}, {"keepdims", 1}}), {1, 3}, {4, -0.5, 3.5});
  expect_near(run("reduce_max", {x}, {{"axes.0", -1}}), {2}, {3, 5});
  expect_near(run("reduce_min", {x}, {{"axes.0", 1}}), {2}, {-1, 0});
  expect_near(run("reduce_prod", {x}, {{"axes.0", 0}}), {3}, {15, 0, 10});
  expect_near(run("argmax", {x}), {2}, {0, 0});
  expect_near(run("cast", {tdl::real_array({4}, {-1.5, 1.5, 0, -0.2})}, {{"to", static_cast<double>(DType::kInt64)}}),
              {4}, {-1, 1, 0, 0}, 0);
  expect_near(run("cast", {tdl::real_array({3}, {-1.5, 0, 0.2})}, {{"to", static_cast<double>(DType::kBool)}}), {3},
              {1, 0, 1}, 0);
  expect_near(run("clip", {x}, {{"lo", 0}, {"hi", 4}}), {2, 3}, {3, 0, 2, 4, 0, 4}, 0);
  const Array big = tdl::int_array({1}, {(int64_t{1} << 60) + 1});
  EXPECT_EQ(run("add", {big, big}).ints, (std::vector<int64_t>{(int64_t{1} << 61) + 2}));
  EXPECT_EQ(run("div", {tdl::int_array({2}, {7, -7}), tdl::int_array({1}, {2})}).ints, (std::vector<int64_t>{3, -4}));
}

TEST(Ops, MomentumIsPyTorchs) {
  // torch.optim.SGD(lr=0.1, momentum=0.9, weight_decay=0.5), w = 2, g = 1, second step with buffer 3: buf = 0.9*3 + (1
  // + 0.5*2).
  const Array w = tdl::real_array({1}, {2}), g = tdl::real_array({1}, {1}), m = tdl::real_array({1}, {3}),
              lr = tdl::real_array({}, {0.1});
  expect_near(run("sgd", {w, g, lr}, {{"weight_decay", 0.5}}), {1}, {2 - 0.1 * 2});
}

// ---------------------------------------------------------------- gradients

// Compares central differences of the loss with the gradient that each update reads, in up to ten elements of every
// parameter.
void check_gradients(const Graph& training, std::map<TensorId, Array> values, Rng& rng, double tolerance) {
  std::map<TensorId, Array> all = values;
  reference_run(training, all);
  Graph forward = training;
  forward.ops.resize(training.tensor(training.loss).producer.index() + 1);
  auto loss = [&] {
    std::map<TensorId, Array> run = values;
    reference_run(forward, run);
    return run.at(training.loss).reals[0];
  };
  int checked = 0;
  for (const Op& op : training.ops) {
    if (op.definition != "sgd") continue;
    const TensorId parameter = op.operands[0], gradient = op.operands[1];
    std::vector<double>& w = values.at(parameter).reals;
    std::vector<std::size_t> elements(w.size());
    std::iota(elements.begin(), elements.end(), 0);
    rng.shuffle(elements);
    for (std::size_t k = 0; k < std::min<std::size_t>(elements.size(), 10); ++k) {
      const std::size_t i = elements[k];
      const double h = 1e-5, x = w[i];
      w[i] = x + h;
      const double above = loss();
      w[i] = x - h;
      const double below = loss();
      w[i] = x;
      EXPECT_NEAR(all.at(gradient).reals[i], (above - below) / (2 * h), tolerance)
          << training.tensor(parameter).name << " element " << i;
      ++checked;
    }
  }
  EXPECT_GT(checked, 0);
}

TEST(Ops, GradientsEqualNumericOnes) {
  const auto registry = standard_ops();
  int gradients = 0;
  for (const OpDefinition* definition : registry->all()) {
    if (!definition->differentiable) continue;
    for (const auto& example : definition->examples) {
      SCOPED_TRACE(describe(*definition, example));
      const OneOp one = one_op(registry, *definition, example, true);
      if (!is_float(one.graph.tensor(one.results[0]).dtype)) continue;
      const Graph training = add_backward(one.graph, {.kind = "mse"}, {});
      EXPECT_EQ(print(parse_graph(print(training), registry)), print(training));
      Rng rng(13);
      std::map<TensorId, Array> values = operand_values(one, *definition, example, rng);
      const TensorId labels = training.find_tensor("labels");
      values[labels] = random_array(training.tensor(labels).shape, rng, -1, 1);
      check_gradients(training, values, rng, 1e-6);
      ++gradients;
    }
  }
  EXPECT_GT(gradients, 60);
}

// ---------------------------------------------------------------- strategies

// Compares with tests/golden/ops_strategies.txt, which is rewritten if PARTITA_UPDATE_GOLDEN is set.
TEST(Ops, StrategiesAreGolden) {
  const auto registry = standard_ops();
  std::string text;
  for (const OpDefinition* definition : registry->all())
    for (const auto& example : definition->examples) {
      text += describe(*definition, example) + "\n";
      tdl::Attributes attributes = example.attributes;
      const auto bound = bind_instance(*definition, attributes, example.shapes, operand_dtypes(example));
      for (const tdl::AxisStrategy& strategy : tdl::strategies(*bound, 2)) {
        const auto derived = tdl::derive(*bound, {2}, {strategy});
        ASSERT_TRUE(derived.has_value()) << describe(*definition, example) << ": " << tdl::to_string(strategy);
        text += "    " + tdl::to_string(*bound, *derived) + "\n";
      }
    }
  const std::string path = PARTITA_SOURCE_DIR "/tests/golden/ops_strategies.txt";
  if (std::getenv("PARTITA_UPDATE_GOLDEN")) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  std::istringstream now(text), then(golden.str());
  std::string a, b;
  for (int line = 1;; ++line) {
    const bool more = static_cast<bool>(std::getline(now, a)), expected = static_cast<bool>(std::getline(then, b));
    ASSERT_EQ(more, expected) << "line " << line;
    if (!more) break;
    ASSERT_EQ(a, b) << "line " << line << " of " << path << "; PARTITA_UPDATE_GOLDEN=1 writes it anew";
  }
}

}  // namespace
}  // namespace partita
