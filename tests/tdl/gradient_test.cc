// Derived gradients (25) against numeric ones, their text, and their own strategies.
#include <gtest/gtest.h>

#include <cmath>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/tdl/testing/check.h"
#include "partita/tdl/testing/golden.h"
#include "partita/tdl/testing/instances.h"

namespace partita::tdl {
namespace {

using testing::Instance;
using testing::instances;
using testing::named;

const OpaqueRegistry& opaques() {
  static const OpaqueRegistry kOpaques = standard_opaques();
  return kOpaques;
}

// A gradient formula bound, with its operands: the forward's, and a random cotangent for each result it asks for.
struct BoundGradient {
  Bound bound;
  std::vector<Array> operands;
};

BoundGradient bind_gradient(const Bound& forward, const Gradient& g, const std::vector<Array>& inputs,
                            const std::vector<Array>& cotangents) {
  std::vector<Array> in;
  std::vector<Shape> shapes;
  for (const std::string& name : g.operands) {
    int t = forward.find_tensor(name);
    if (t < 0 || t >= forward.operand_count) {
      size_t r = 0;
      while (r < forward.results.size() && "g_" + forward.tensors[forward.results[r]].name != name) ++r;
      if (r == forward.results.size()) {
        ADD_FAILURE() << forward.name << ": no result belongs to " << name;
        return {};
      }
      in.push_back(cotangents[r]);
    } else {
      in.push_back(inputs[t]);
    }
    shapes.push_back(in.back().shape);
  }
  return {tdl::bind(g.text, shapes), in};
}

std::vector<Array> random_cotangents(const Bound& bound, uint64_t seed) {
  std::vector<Array> result;
  for (int r : bound.results) result.push_back(testing::normal_array(bound.tensors[r].shape, seed + r));
  return result;
}

// sum over results of <cotangent, result>, infinities (a masked score) left out: they do not move.
double weighted(const Bound& bound, const std::vector<Array>& in, const std::vector<Array>& cotangents) {
  std::vector<Array> out = evaluate(bound, in, {&opaques(), false, nullptr});
  double s = 0;
  for (size_t r = 0; r < out.size(); ++r)
    for (int64_t i = 0; i < volume(out[r].shape); ++i)
      if (std::isfinite(out[r].at(i))) s += out[r].at(i) * cotangents[r].reals[i];
  return s;
}

// Operands of an instance whose gradient must be declared.
bool is_declared(const Instance& instance) { return instance.name == "reduce prod" || instance.name == "cholesky"; }

TEST(Gradient, EqualsTheNumericOneForEveryInstance) {
  constexpr double kStep = 1e-5;
  int checked = 0, zero = 0;
  for (const Instance& instance : instances()) {
    if (is_declared(instance)) continue;
    Bound forward = testing::bind(instance);
    std::vector<Array> in = testing::operands(instance, 7);
    std::vector<Array> cotangents = random_cotangents(forward, 100);
    for (int o = 0; o < forward.operand_count; ++o) {
      SCOPED_TRACE(instance.name + ", operand " + forward.tensors[o].name);
      if (!is_float(in[o].dtype)) {
        EXPECT_FALSE(gradient(forward, o));
        continue;
      }
      Array direction = testing::normal_array(in[o].shape, 200 + o);
      std::vector<Array> up = in, down = in;
      for (size_t i = 0; i < direction.reals.size(); ++i) {
        up[o].reals[i] += kStep * direction.reals[i];
        down[o].reals[i] -= kStep * direction.reals[i];
      }
      double numeric = (weighted(forward, up, cotangents) - weighted(forward, down, cotangents)) / (2 * kStep);
      std::optional<Gradient> g = gradient(forward, o);
      if (!g) {
        EXPECT_NEAR(numeric, 0, 1e-9);
        ++zero;
        continue;
      }
      BoundGradient bg = bind_gradient(forward, *g, in, cotangents);
      ASSERT_EQ(bg.bound.tensors[bg.bound.results.at(0)].shape, forward.tensors[o].shape) << g->text;
      Array d = evaluate(bg.bound, bg.operands, {&opaques(), false, nullptr})[0];
      double derived = 0, size = 1;
      for (size_t i = 0; i < direction.reals.size(); ++i) {
        derived += d.reals[i] * direction.reals[i];
        size += std::abs(d.reals[i] * direction.reals[i]);
      }
      EXPECT_NEAR(derived, numeric, 1e-7 * size) << g->text;
      ++checked;
    }
  }
  EXPECT_GT(checked, 120);
  fmt::print("{} gradients equal the numeric ones, {} are zero\n", checked, zero);
}

std::string text_of(std::string_view name, std::string_view operand) {
  Bound b = testing::bind(named(name));
  std::optional<Gradient> g = gradient(b, b.find_tensor(operand));
  return g ? g->text : "";
}

TEST(Gradient, TextsAreTheGoldenText) {
  std::string text =
      "# The derived gradient of every operand of every operator instance (partita/tdl/testing/instances.txt).\n";
  for (const Instance& instance : instances()) {
    text += instance.name + "\n";
    Bound forward = testing::bind(instance);
    for (int o = 0; o < forward.operand_count; ++o) {
      std::string line = "none";
      try {
        if (std::optional<Gradient> g = gradient(forward, o)) line = g->text;
      } catch (const Error& e) {
        line = e.what();
      }
      for (size_t at = 0; (at = line.find('\n', at)) != std::string::npos; ++at) line.insert(at + 1, "    ");
      text += fmt::format("    {}: {}\n", forward.tensors[o].name, line);
    }
  }
  EXPECT_EQ(testing::golden_difference("tdl_gradients.txt", text), "");
}

TEST(Gradient, KeepsTheForwardsIndexNames) {
  EXPECT_EQ(text_of("matmul", "a"),
            "matmul_da(b, g_out) -> d_a where i < 5, k < 7, j < 3 =\n"
            "    d_a[i, k] = sum(j) (g_out[i, j] * b[k, j])");
  EXPECT_EQ(text_of("embedding", "t"),
            "emb_dt(ids, g_out) -> d_t where b.0 < 3, b.1 < 2, h < 5, v < 7 =\n"
            "    d_t[v, h] = sum(b.0, b.1) if((ids[b.0, b.1] == v), g_out[b.0, b.1, h], 0)");
}

TEST(Gradient, PushesFactorsIntoSelections) {
  EXPECT_EQ(text_of("relu", "x"),
            "relu_dx(x, g_out) -> d_x where i.0 < 5, i.1 < 7 =\n"
            "    d_x[i.0, i.1] = if((x[i.0, i.1] > 0), g_out[i.0, i.1], 0)");
}

TEST(Gradient, OfAReshapeIsAReshape) {
  EXPECT_EQ(text_of("reshape 4x6->3x8", "x"),
            "resh_dx(g_out) -> d_x where x_0 < 4, x_1 < 6 =\n"
            "    d_x[x_0, x_1] = g_out[((6*x_0 + x_1) // 8), ((6*x_0 + x_1) % 8)]");
  Bound b = tdl::bind("f(x)[n, i] where n < 2, i < 105 = x[n, i//35, i//7 % 5, i % 7]", {{2, 3, 5, 7}});
  std::optional<Gradient> g = gradient(b, 0);
  ASSERT_TRUE(g);
  Array cotangent = testing::normal_array({2, 105}, 3);
  EXPECT_EQ(evaluate(tdl::bind(g->text, {{2, 105}}), {cotangent})[0].reals, cotangent.reals) << g->text;
  EXPECT_EQ(g->text.find("sum"), std::string::npos) << g->text;
}

TEST(Gradient, SumsOverBroadcastAxes) {
  EXPECT_EQ(text_of("add", "a"),
            "add_da(g_out) -> d_a where i.0 < 3, i.1 < 4, i.2 < 5 =\n"
            "    d_a[i.0, 0, i.2] = sum(i.1) g_out[i.0, i.1, i.2]");
}

TEST(Gradient, OfAConvolutionsDataIsAHaloedReadWithoutRangeGuards) {
  EXPECT_EQ(text_of("conv1d", "x"),
            "conv1d_dx(w, g_out) -> d_x where n < 3, c < 3, o < 4, r < 3, x_2 < 11 =\n"
            "    d_x[n, c, x_2] = sum(o, r) (g_out[n, o, -r + x_2 + 1] * w[o, c, r])");
}

TEST(Gradient, EqualsARegisteredDefinitionsCanonicalForm) {
  Bound strided =
      tdl::bind("conv(x, w)[n,o,y] where y < 5 = sum(c,r) x[n, c, y*2 + r - 1] * w[o,c,r]", {{2, 3, 9}, {4, 3, 3}});
  std::optional<Gradient> dx = gradient(strided, 0), dw = gradient(strided, 1);
  ASSERT_TRUE(dx && dw);
  EXPECT_EQ(dw->operands, (std::vector<std::string>{"x", "g_out"}));
  Bound weight =
      tdl::bind("cwg(x, g)[o,c,r] where r < 3 = sum(n,y) g[n,o,y] * x[n, c, y*2 + r - 1]", {{2, 3, 9}, {2, 4, 5}});
  EXPECT_EQ(canonical(tdl::bind(dw->text, {{2, 3, 9}, {2, 4, 5}})), canonical(weight));
  // The output position y is solved for, and the taps r are summed over where the stride divides.
  Bound data =
      tdl::bind("cdg(w, g)[n,c,u] where u < 9 = sum(o,r) if((u + 1 - r) % 2 == 0, g[n,o,(u + 1 - r)//2] * w[o,c,r], 0)",
                {{4, 3, 3}, {2, 4, 5}});
  EXPECT_EQ(canonical(tdl::bind(dx->text, {{4, 3, 3}, {2, 4, 5}})), canonical(data));
  EXPECT_LE(flops(data), 2.0 * 2 * 3 * 4 * 14);  // of 27 (position, tap) pairs about half
  // da of matmul is matmul with b transposed.
  Bound matmul = tdl::bind("matmul(a, b)[i,j] = sum(k) a[i,k] * b[k,j]", {{5, 7}, {7, 3}});
  std::optional<Gradient> da = gradient(matmul, 0);
  ASSERT_TRUE(da);
  EXPECT_EQ(canonical(tdl::bind(da->text, {{7, 3}, {5, 3}})),
            canonical(tdl::bind("nt(b, g)[i,k] = sum(j) g[i,j] * b[k,j]", {{7, 3}, {5, 3}})));
}

TEST(Gradient, AsksForADeclaredOneWhereNoneIsDerived) {
  for (const Instance& instance : instances()) {
    if (!is_declared(instance)) continue;
    try {
      gradient(testing::bind(instance), 0);
      ADD_FAILURE() << instance.name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kBadInput);
      EXPECT_NE(std::string(e.what()).find("declare"), std::string::npos) << e.what();
    }
  }
}

TEST(Gradient, OfReluAtZeroIsZero) {
  Bound b = tdl::bind("relu(x)[i] = max(x[i], 0)", {{3}});
  std::optional<Gradient> g = gradient(b, 0);
  ASSERT_TRUE(g);
  Array x = real_array({3}, {-1, 0, 2}), one = real_array({3}, {1, 1, 1});
  EXPECT_EQ(evaluate(tdl::bind(g->text, {{3}, {3}}), {x, one})[0].reals, (std::vector<double>{0, 0, 1}));
}

// d f / d x of a formula of x and perhaps y, with a cotangent of ones.
std::vector<double> slope(const std::string& text, const std::vector<double>& x, const std::vector<double>& y = {}) {
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<Array> in{real_array({n}, x)};
  if (!y.empty()) in.push_back(real_array({n}, y));
  std::vector<Shape> shapes(in.size(), {n});
  const Bound b = tdl::bind(text, shapes);
  const std::optional<Gradient> g = gradient(b, 0);
  if (!g) return {};
  const Shape& result = b.tensors[b.results[0]].shape;
  const std::vector<Array> ones{real_array(result, std::vector<double>(static_cast<size_t>(volume(result)), 1))};
  const BoundGradient bg = bind_gradient(b, *g, in, ones);
  return evaluate(bg.bound, bg.operands)[0].reals;
}

// As torch.maximum and amax have it: two values share a tie, a number takes all of it, on either side.
TEST(Gradient, OfTies) {
  using Slopes = std::vector<double>;
  EXPECT_EQ(slope("f(x, y)[i] = max(x[i], y[i])", {1, 2, 3}, {2, 2, 2}), (Slopes{0, 0.5, 1}));
  EXPECT_EQ(slope("f(x, y)[i] = min(y[i], x[i])", {1, 2, 3}, {2, 2, 2}), (Slopes{1, 0.5, 0}));
  EXPECT_EQ(slope("f(x)[i] = max(x[i], -x[i])", {-2, 0, 2}), (Slopes{-1, 0, 1}));
  EXPECT_EQ(slope("f(x)[i] = max(0, x[i])", {-2, 0, 2}), (Slopes{0, 0, 1}));
  EXPECT_EQ(slope("f(x)[i] = min(max(x[i], 0), 6)", {0, 1, 6}), (Slopes{0, 1, 0}));
  EXPECT_EQ(slope("f(x)[] = max(i) x[i]", {3, 1, 3, 3}), (Slopes{1.0 / 3, 0, 1.0 / 3, 1.0 / 3}));
  EXPECT_EQ(slope("f(x)[j] where j < 3 = min(i) x[i] + j", {1, 1, 2}), (Slopes{1.5, 1.5, 0}));
}

// 0 times infinity that PyTorch has not: torch.pow, torch.div, torch.remainder.
TEST(Gradient, IsFiniteWherePyTorchsIs) {
  using Slopes = std::vector<double>;
  EXPECT_EQ(slope("f(x, y)[i] = x[i]^y[i]", {0, 0, 0, 3}, {0, 1, 2, 0}), (Slopes{0, 1, 0, 0}));
  EXPECT_EQ(slope("f(y, x)[i] = x[i]^y[i]", {0, 1, 2}, {0, 0, 0}), (Slopes{0, 0, 0}));
  EXPECT_EQ(slope("f(x)[i] = x[i]^1", {0, 2}), (Slopes{1, 1}));
  EXPECT_EQ(slope("f(y, x)[i] = x[i] / y[i]", {1e-200, 1e200}, {0, 1e300}), (Slopes{-0.0, -1e-100}));
  EXPECT_EQ(slope("f(x, y)[i] = x[i] % y[i]", {5, -5}, {3, 3}), (Slopes{1, 1}));
  EXPECT_EQ(slope("f(y, x)[i] = x[i] % y[i]", {3, 3}, {5, -5}), (Slopes{-1, 2}));
  EXPECT_EQ(slope("f(x)[i] = if(x[i] > 0, x[i], exp(x[i]) - 1)", {0, 1000}), (Slopes{1, 1}));
}

// Every strategy of every gradient formula is right too.
int check_strategies(const std::vector<int>& workers) {
  int runs = 0;
  for (const Instance& instance : instances()) {
    if (is_declared(instance)) continue;
    Bound forward = testing::bind(instance);
    std::vector<Array> in = testing::operands(instance, 7), cotangents = random_cotangents(forward, 100);
    for (int o = 0; o < forward.operand_count; ++o) {
      std::optional<Gradient> g = gradient(forward, o);
      if (!g) continue;
      BoundGradient bg = bind_gradient(forward, *g, in, cotangents);
      for (int p : workers)
        for (const AxisStrategy& s : strategies(bg.bound, p)) {
          std::optional<Derived> d = derive(bg.bound, {p}, {s});
          if (!d) {
            ADD_FAILURE() << g->text << "\n" << to_string(s) << " is listed and not derived";
            continue;
          }
          std::string wrong = testing::check(bg.bound, *d, bg.operands, hash_name(g->text) + runs).wrong;
          EXPECT_EQ(wrong, "") << g->text << "\n" << to_string(s) << " on " << p;
          ++runs;
        }
    }
  }
  return runs;
}

TEST(Gradient, EveryStrategyIsRightOnThreeWorkers) { EXPECT_GT(check_strategies({3}), 500); }
TEST(LongGradient, EveryStrategyIsRightOnTwoAndFourWorkers) { EXPECT_GT(check_strategies({2, 4}), 1000); }

}  // namespace
}  // namespace partita::tdl
