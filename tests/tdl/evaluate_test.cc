// The reference evaluator against loops written by hand, and its exactness on integers.
#include "partita/tdl/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/tdl/testing/check.h"
#include "partita/tdl/testing/instances.h"

namespace partita::tdl {
namespace {

using testing::difference;
using testing::named;
using testing::operands;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<Array> run(std::string_view text, const std::vector<Array>& in, const Attributes& attributes = {},
                       bool with_terms = false) {
  std::vector<Shape> shapes;
  for (const Array& a : in) shapes.push_back(a.shape);
  OpaqueRegistry opaques = standard_opaques();
  return evaluate(tdl::bind(text, shapes, attributes), in, {&opaques, with_terms, nullptr});
}

// The first result of an instance on its own data, and that data.
struct Case {
  std::vector<Array> in;
  Array out;
};
Case of(std::string_view name) {
  Case c;
  c.in = operands(named(name), 7);
  OpaqueRegistry opaques = standard_opaques();
  c.out = evaluate(testing::bind(named(name)), c.in, {&opaques, true, nullptr})[0];
  return c;
}

double at(const Array& a, std::initializer_list<int64_t> point) {
  int64_t offset = 0;
  size_t axis = 0;
  for (int64_t x : point) {
    if (x < 0 || x >= a.shape[axis]) return 0;
    offset = offset * a.shape[axis++] + x;
  }
  return a.at(offset);
}

template <typename F>
void expect_each(const Array& out, F expected) {
  for_each_point(full_box(out.shape), [&](std::span<const int64_t> p) {
    double want = expected(p), got = out.at(offset_in(full_box(out.shape), p));
    EXPECT_TRUE(got == want || std::abs(got - want) <= 1e-13 * std::max(1.0, std::abs(want)))
        << fmt::format("at {}: {} instead of {}", std::vector<int64_t>(p.begin(), p.end()), got, want);
  });
}

TEST(Evaluate, MatrixProduct) {
  Case c = of("matmul");
  expect_each(c.out, [&](auto p) {
    double s = 0;
    for (int64_t k = 0; k < 7; ++k) s += at(c.in[0], {p[0], k}) * at(c.in[1], {k, p[1]});
    return s;
  });
}

TEST(Evaluate, BroadcastingFollowsNumPy) {
  Case c = of("add");
  EXPECT_EQ(c.out.shape, (Shape{3, 4, 5}));
  expect_each(c.out, [&](auto p) { return at(c.in[0], {p[0], 0, p[2]}) + at(c.in[1], {p[1], 0}); });
}

TEST(Evaluate, StridedDilatedConvolution) {
  Case c = of("conv2d s2d2");
  EXPECT_EQ(c.out.shape, (Shape{2, 3, 5, 4}));
  expect_each(c.out, [&](auto p) {
    double s = 0;
    for (int64_t k = 0; k < 3; ++k)
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t t = 0; t < 3; ++t)
          s += at(c.in[0], {p[0], k, p[2] * 2 + r * 2 - 1, p[3] * 2 + t * 2 - 1}) * at(c.in[1], {p[1], k, r, t});
    return s;
  });
}

TEST(Evaluate, GroupedConvolutionReadsItsGroupsChannels) {
  Case c = of("conv2d groups");
  expect_each(c.out, [&](auto p) {
    double s = 0;
    for (int64_t k = 0; k < 2; ++k)
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t t = 0; t < 3; ++t)
          s += at(c.in[0], {p[0], p[1] / 2 * 2 + k, p[2] + r - 1, p[3] + t - 1}) * at(c.in[1], {p[1], k, r, t});
    return s;
  });
}

TEST(Evaluate, MaxPoolPadsWithMinusInfinity) {
  Case c = of("max pool");
  expect_each(c.out, [&](auto p) {
    double m = -kInf;
    for (int64_t y = std::max<int64_t>(0, p[2] * 2 - 1); y < std::min<int64_t>(9, p[2] * 2 + 2); ++y)
      for (int64_t z = std::max<int64_t>(0, p[3] * 2 - 1); z < std::min<int64_t>(6, p[3] * 2 + 2); ++z)
        m = std::max(m, at(c.in[0], {p[0], p[1], y, z}));
    return m;
  });
  EXPECT_LT(c.out.at(0), -1);  // all data is below -1: a padding of 0 would show
}

TEST(Evaluate, Softmax) {
  Case c = of("softmax");
  expect_each(c.out, [&](auto p) {
    double s = 0;
    for (int64_t j = 0; j < 7; ++j) s += std::exp(at(c.in[0], {p[0], j}));
    return std::exp(at(c.in[0], {p[0], p[1]})) / s;
  });
}

TEST(Evaluate, CrossEntropyByClassIndex) {
  for (const char* name : {"cross entropy", "cross entropy, unnamed gather"}) {
    Case c = of(name);
    expect_each(c.out, [&](auto p) {
      double s = 0;
      for (int64_t j = 0; j < 7; ++j) s += std::exp(at(c.in[0], {p[0], j}));
      return std::log(s) - at(c.in[0], {p[0], c.in[1].ints[p[0]]});
    });
  }
}

TEST(Evaluate, CausalAttention) {
  for (const char* name : {"attention causal", "attention guarded"}) {
    Case c = of(name);
    expect_each(c.out, [&](auto p) {
      double sum = 0, out = 0;
      for (int64_t j = 0; j < 7 && j <= p[2] + 2; ++j) {
        double s = 0;
        for (int64_t e = 0; e < 3; ++e) s += at(c.in[0], {p[0], p[1], p[2], e}) * at(c.in[1], {p[0], p[1], j, e});
        sum += std::exp(0.5 * s);
        out += std::exp(0.5 * s) * at(c.in[2], {p[0], p[1], j, p[3]});
      }
      return out / sum;
    });
  }
}

TEST(Evaluate, EmbeddingAndItsGradient) {
  Case c = of("embedding");
  expect_each(c.out, [&](auto p) { return at(c.in[1], {c.in[0].ints[p[0] * 2 + p[1]], p[2]}); });
  Case g = of("embedding grad");
  expect_each(g.out, [&](auto p) {
    double s = 0;
    for (int64_t b = 0; b < 6; ++b)
      if (g.in[0].ints[b] == p[0]) s += at(g.in[1], {b / 2, b % 2, p[1]});
    return s;
  });
}

TEST(Evaluate, ConcatPadReshapeFlip) {
  Case c = of("concat 3");
  expect_each(c.out, [&](auto p) {
    int64_t i = p[0];
    return i < 2 ? at(c.in[0], {i, p[1]}) : i < 7 ? at(c.in[1], {i - 2, p[1]}) : at(c.in[2], {i - 7, p[1]});
  });
  Case pad = of("pad value");
  expect_each(pad.out, [&](auto p) { return p[0] < 2 || p[0] > 8 ? 1.5 : at(pad.in[0], {p[0] - 2, p[1]}); });
  for (const char* name : {"reshape 4x6->8x3", "reshape 4x6->3x8", "merge", "split dim"}) {
    Case r = of(name);
    EXPECT_EQ(r.in[0].reals, r.out.reals) << name;
  }
  Case f = of("flip");
  expect_each(f.out, [&](auto p) { return at(f.in[0], {6 - p[0], p[1]}); });
}

TEST(Evaluate, CumulativeSumInOneLevelAndTwo) {
  for (const char* name : {"cumsum", "cumsum 2-level"}) {
    Case c = of(name);
    expect_each(c.out, [&](auto p) {
      double s = 0;
      for (int64_t i = 0; i <= p[0]; ++i) s += at(c.in[0], {i, p[1]});
      return s;
    });
  }
}

TEST(Evaluate, OpaqueCholeskyTimesItsTransposeIsTheMatrix) {
  Case c = of("cholesky");
  expect_each(c.in[0], [&](auto p) {
    double s = 0;
    for (int64_t k = 0; k < 3; ++k) s += at(c.out, {p[0], p[1], k}) * at(c.out, {p[0], p[2], k});
    return s;
  });
  EXPECT_THROW(evaluate(testing::bind(named("cholesky")), c.in), Error);  // without a registry
}

TEST(Evaluate, DropoutIsKeyedByTheElementsGlobalNumber) {
  Case c = of("dropout");
  expect_each(c.out, [&](auto p) {
    uint64_t n = static_cast<uint64_t>(p[0] * 7 + p[1]);
    return philox_uniform(7, 0, 3, n) < 0.5 ? 0 : 2 * at(c.in[0], {p[0], p[1]});
  });
}

TEST(Evaluate, IntegersAreExact) {
  int64_t big = (int64_t{1} << 53) + 1;  // no double
  Array x = int_array({3}, {big, -7, 4});
  EXPECT_EQ(run("f(x)[i] = x[i] + 2", {x})[0].ints, (std::vector<int64_t>{big + 2, -5, 6}));
  EXPECT_EQ(run("f(x)[i] = x[i] // 2", {x})[0].ints, (std::vector<int64_t>{big / 2, -4, 2}));
  EXPECT_EQ(run("f(x)[i] = x[i] % 5", {x})[0].ints, (std::vector<int64_t>{big % 5, 3, 4}));
  EXPECT_EQ(run("f(x)[] = sum(i) x[i]", {x})[0].ints, (std::vector<int64_t>{big - 3}));
  EXPECT_EQ(run("f(x)[] = max(i) x[i]", {x})[0].ints, (std::vector<int64_t>{big}));
  Array less = run("f(x)[i] = x[i] < 0 or x[i] == 4", {x})[0];
  EXPECT_EQ(less.dtype, DType::kBool);
  EXPECT_EQ(less.ints, (std::vector<int64_t>{0, 1, 1}));
  Array half = run("f(x)[i] = x[i] / 2", {x})[0];
  EXPECT_EQ(half.dtype, DType::kFloat64);
  EXPECT_EQ(half.reals[1], -3.5);
  EXPECT_THROW(run("f(x)[i] = 1 // (x[i] - x[i])", {x}), Error);
}

TEST(Evaluate, SelectsAndDoesNotMultiply) {  // a table row that no id names may hold anything
  Array ids = int_array({2}, {0, 2}), table = real_array({3, 1}, {1, kInf, 3});
  EXPECT_EQ(run("f(ids, t)[b, h] = t[v = ids[b], h]", {ids, table})[0].reals, (std::vector<double>{1, 3}));
  Array outside = int_array({2}, {-1, 3});
  EXPECT_EQ(run("f(ids, t)[b, h] = t[v = ids[b], h]", {outside, table})[0].reals, (std::vector<double>{0, 0}));
}

TEST(Evaluate, ReductionsOverNothingGiveTheIdentity) {
  Bound b = tdl::bind("f(x)[i] = max(j) x[i, j]", {{2, 3}});
  Piece x = piece_of(real_array({2, 3}, {1, 2, 3, 4, 5, 6}), {2, 3}, {{0, 2}, {0, 0}});
  std::vector<Interval> ranges(2);
  ranges[b.find_index("i")] = {0, 2};
  Piece out = evaluate_stage(b, 0, ranges, {&x, nullptr});
  EXPECT_EQ(out.data.reals, (std::vector<double>{-kInf, -kInf}));
}

TEST(Evaluate, ReadingOutsideAPieceThrows) {
  Bound b = tdl::bind("f(x)[i] where i < 3 = x[i] + x[i + 1]", {{4}});
  Array x = real_array({4}, {1, 2, 3, 4});
  Piece enough = piece_of(x, {4}, {{1, 4}}), short_one = piece_of(x, {4}, {{1, 3}});
  EXPECT_EQ(evaluate_stage(b, 0, {{1, 3}}, {&enough, nullptr}).data.reals, (std::vector<double>{5, 7}));
  EXPECT_THROW(evaluate_stage(b, 0, {{1, 3}}, {&short_one, nullptr}), Error);
}

TEST(Evaluate, TermsBoundTheRoundingOfACancellingSum) {
  Array x = real_array({3}, {1e16, 1, -1e16});
  Array out = run("f(x)[] = sum(i) x[i]", {x}, {}, true)[0];
  EXPECT_EQ(out.terms[0], 2e16 + 1);
  EXPECT_EQ(difference(real_array({}, {1}), out, 1e-15), "");  // the exact sum is within it
  EXPECT_NE(difference(real_array({}, {1000}), out, 1e-15), "");
}

}  // namespace
}  // namespace partita::tdl
