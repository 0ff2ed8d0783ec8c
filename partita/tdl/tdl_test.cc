// Tests the language: parsing, binding, strategies, regions and text.
#include "partita/tdl/tdl.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/tdl/affine.h"

namespace partita::tdl {
namespace {

using Shapes = std::vector<Shape>;

std::string error_of(std::string_view text, const Shapes& shapes, const Attributes& attributes = {}) {
  try {
    tdl::bind(text, shapes, attributes);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kBadInput);
    return e.what();
  }
  return "accepted";
}

// The printed strategies with at most one name and only sums and maxima, as in the prototype's list.
std::vector<std::string> signatures(const Bound& bound, int p = 2) {
  std::vector<std::string> lines;
  for (const AxisStrategy& s : strategies(bound, p)) {
    if (s.replicate() || s.names.size() > 1) continue;
    if (s.names.empty() && s.reducer != Reducer::kSum && s.reducer != Reducer::kMax) continue;
    const auto derived = derive(bound, {p}, {s});
    lines.push_back(derived ? to_string(bound, *derived) : "not derived: " + to_string(s));
  }
  return lines;
}
using Lines = std::vector<std::string>;

std::string split_names(const Bound& bound) {
  std::string names;
  for (const AxisStrategy& s : strategies(bound, 2))
    if (s.names.size() == 1 && s.partial.empty()) names += (names.empty() ? "" : " ") + s.names[0];
  return names;
}

Derived must_derive(const Bound& bound, const std::vector<int>& mesh, const std::vector<std::string>& axes) {
  std::vector<AxisStrategy> parsed;
  for (const std::string& a : axes) parsed.push_back(parse_strategy(a));
  NotDerived why;
  auto d = derive(bound, mesh, parsed, &why);
  if (!d) throw std::runtime_error("not derived: " + why.why);
  return *d;
}

std::string reason_not_derived(const Bound& bound, const std::vector<int>& mesh, const std::vector<std::string>& axes) {
  std::vector<AxisStrategy> parsed;
  for (const std::string& a : axes) parsed.push_back(parse_strategy(a));
  NotDerived why;
  return derive(bound, mesh, parsed, &why) ? "derived" : why.why;
}

constexpr const char* kMatmul = "matmul(a, b)[i, j] = sum(k) a[i, k] * b[k, j]";
constexpr const char* kSoftmax =
    "softmax(x)[..b, j] =\n"
    "    m[..b]    = max(j) x[..b, j]\n"
    "    e[..b, j] = exp(x[..b, j] - m[..b])\n"
    "    s[..b]    = sum(j) e[..b, j]\n"
    "    e[..b, j] / s[..b]";

// ------------------------------------------------------------ errors

struct BadInput {
  const char* name;
  const char* text;
  Shapes shapes;
  const char* message;
};

class Errors : public testing::TestWithParam<BadInput> {};

TEST_P(Errors, NameLineColumnAndCaret) { EXPECT_EQ(error_of(GetParam().text, GetParam().shapes), GetParam().message); }

INSTANTIATE_TEST_SUITE_P(
    Tdl, Errors,
    testing::Values(
        BadInput{"ProductOfIndices",
                 "f(x)[i, j] where i < 3, j < 3 = x[i*j]",
                 {{9}},
                 "f, line 1, column 36: a product of two indices\n"
                 "    f(x)[i, j] where i < 3, j < 3 = x[i*j]\n"
                 "                                       ^"},
        BadInput{"ProductWithoutExtents",
                 "f(a, b)[i] = sum(k) a[i*k] * b[k]",
                 {{9}, {3}},
                 "f, line 1, column 24: a product of two indices\n"
                 "    f(a, b)[i] = sum(k) a[i*k] * b[k]\n"
                 "                           ^"},
        BadInput{"NoExtent",
                 "f(x)[y] where r < 3 = max(r) x[y*2+r]",
                 {{9}},
                 "f, line 1, column 6: nothing fixes the extent of y: add `where y < ..`, or give an attribute y\n"
                 "    f(x)[y] where r < 3 = max(r) x[y*2+r]\n"
                 "         ^"},
        BadInput{"ExtentsDisagree",
                 "f(a, b)[i] =\n    a[i] * b[i]",
                 {{3}, {4}},
                 "f, line 2, column 14: the extent of i is 3 elsewhere, and 4 here (b)\n"
                 "        a[i] * b[i]\n"
                 "                 ^"},
        BadInput{"CannotBroadcast",
                 "f(a, b)[..i] = a[..i] + b[..i]",
                 {{3}, {4}},
                 "f, line 1, column 27: b has extent 4 where another operand has 3: ..i can't be broadcast\n"
                 "    f(a, b)[..i] = a[..i] + b[..i]\n"
                 "                              ^"},
        BadInput{"LeftSideWithGaps",
                 "f(x)[i*2] = x[i]",
                 {{3}},
                 "f, line 1, column 5: the left side of out does not cover its box exactly once\n"
                 "    f(x)[i*2] = x[i]\n"
                 "        ^"},
        BadInput{"LeftSideTwice",
                 "f(x) -> y =\n  y[i, i] = x[i]",
                 {{3}},
                 "f, line 2, column 3: the left side of y does not cover its box exactly once\n"
                 "      y[i, i] = x[i]\n"
                 "      ^"},
        // 1 + 3 + 3 + 1 = 2 * 2 * 2 elements, and still 3 is written twice
        BadInput{"LeftSideOverlaps",
                 "f(x)[i + 3*j + 3*k] where i < 2, j < 2, k < 2 = x[i, j, k]",
                 {{2, 2, 2}},
                 "f, line 1, column 5: the left side of out does not cover its box exactly once\n"
                 "    f(x)[i + 3*j + 3*k] where i < 2, j < 2, k < 2 = x[i, j, k]\n"
                 "        ^"},
        BadInput{"StageNamedTwice",
                 "f(x)[i] =\n    s[i] = x[i]\n    s[i] = x[i] * 2\n    s[i]",
                 {{3}},
                 "f, line 3, column 5: two stages are named s\n"
                 "        s[i] = x[i] * 2\n"
                 "        ^"},
        BadInput{"StageNamedAsOperand",
                 "f(x)[i] =\n    x[i] = x[i]\n    x[i]",
                 {{3}},
                 "f, line 2, column 5: the stage x has an operand's name\n"
                 "        x[i] = x[i]\n"
                 "        ^"},
        BadInput{"WrongRank",
                 "f(x)[i] = 2 * x[i, i]",
                 {{3}},
                 "f, line 1, column 15: x has 1 axis, and is read with 2\n"
                 "    f(x)[i] = 2 * x[i, i]\n"
                 "                  ^"},
        BadInput{"UnnamedDataIndex",
                 "f(t, ids)[b, h] = t[ids[b], h]",
                 {{3, 4}, {5}},
                 "f, line 1, column 21: an index that is read from data needs a name: t[v = ids[..]]\n"
                 "    f(t, ids)[b, h] = t[ids[b], h]\n"
                 "                        ^"},
        BadInput{"UnknownTensor",
                 "f(x)[i] = x[i] + y[i]",
                 {{3}},
                 "f, line 1, column 18: there is no operand or stage y\n"
                 "    f(x)[i] = x[i] + y[i]\n"
                 "                     ^"},
        BadInput{"ReadBeforeDefined",
                 "f(x)[i] =\n  t[i] = s[i]\n  s[i] = x[i]\n  t[i]",
                 {{3}},
                 "f, line 2, column 10: s is read before the line that defines it\n"
                 "      t[i] = s[i]\n"
                 "             ^"},
        BadInput{"NotReduced",
                 "f(x)[i] = x[i] * x[k]",
                 {{3}},
                 "f, line 1, column 5: k of stage out is neither an index of its left side nor reduced\n"
                 "    f(x)[i] = x[i] * x[k]\n"
                 "        ^"},
        BadInput{"BadCharacter",
                 "f(x)[i] = x[i] $ 2",
                 {{3}},
                 "formula, line 1, column 16: no formula has the character '$'\n"
                 "    f(x)[i] = x[i] $ 2\n"
                 "                   ^"},
        BadInput{"Unclosed",
                 "f(x)[i] = (x[i]",
                 {{3}},
                 "f, line 1, column 16: expected ')', found the end\n"
                 "    f(x)[i] = (x[i]\n"
                 "                   ^"},
        BadInput{"DivisionByZero",
                 "f(x)[i] where i < 3 = x[i//0]",
                 {{9}},
                 "f, line 1, column 26: '//' by zero\n"
                 "    f(x)[i] where i < 3 = x[i//0]\n"
                 "                             ^"},
        BadInput{"NoAxis",
                 "f(x)[i] = x.3 + x[i]",
                 {{3}},
                 "f, line 1, column 11: x has 1 axis, so there is no x.3\n"
                 "    f(x)[i] = x.3 + x[i]\n"
                 "              ^"},
        BadInput{"NoResult",
                 "f(x) -> y = s[i] = x[i]",
                 {{3}},
                 "f, line 1, column 9: no stage defines the result y\n"
                 "    f(x) -> y = s[i] = x[i]\n"
                 "            ^"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Errors, NeverACrash) {
  const std::string deep(100000, '(');
  EXPECT_NE(error_of("f(x)[i] = " + deep, {{3}}).find("nested too deeply"), std::string::npos);
  std::string longest = "f(x)[i] = x[i]";
  for (int i = 0; i < 100000; ++i) longest += " + x[i]";
  EXPECT_NE(error_of(longest, {{3}}).find("too long"), std::string::npos);
  for (const char* text :
       {"", "f", "f(", "f()", "f(x)[", "f(x)[i] =", "f(x)[i] = x[", "f(x)[i] where", "f(x) ->", "f(x)[i] = sum(i)",
        "f(x)[i] = if(1, 2)", "f(x)[i] = x[i] else y", "f(x)[i] = x[:]", "f(x)[i] = opaque", "f(x)[i] = 1e999",
        "f(x)[i] = ..i", "f(x)[i] = rng()", "f(x)[i] = x.99999999 + x[i]"})
    EXPECT_NE(error_of(text, {{3}}), "accepted") << text;
  EXPECT_EQ(error_of("f(x)[i] = x[i]", {{3}, {4}}), "f takes 1 operands (x), not 2");
}

// ------------------------------------------------------------ forms

TEST(AffineForms, EqualTermsAreCollected) {
  const Affine i = affine_index(0), j = affine_index(1);
  EXPECT_EQ(to_string(i + j - i, {"i", "j"}), "j");
  EXPECT_EQ(to_string(floor_div(scaled(i, 6) + j, 6), {"i", "j"}), "i + ((j) // 6)");
  EXPECT_EQ(to_string(modulo(scaled(i, 6) + j + affine_constant(7), 6), {"i", "j"}), "((j + 1) % 6)");
  EXPECT_TRUE(scaled(i, 2) + j == j + i + i);
}

TEST(AffineForms, IntervalsAreExactWhereEachIndexOccursOnce) {
  for (int coefficient = -3; coefficient <= 3; ++coefficient)
    for (int constant = -4; constant <= 4; ++constant)
      for (int64_t divisor = 1; divisor <= 4; ++divisor)
        for (int64_t lo = 0; lo < 3; ++lo)
          for (int64_t hi = lo + 1; hi < 6; ++hi) {
            const Affine form = scaled(affine_index(0), coefficient) + affine_constant(constant);
            Interval values, quotients;
            for (int64_t i = lo; i < hi; ++i) {
              const int64_t v = coefficient * i + constant;
              values = hull(values, {v, v + 1});
              quotients = hull(quotients, {floor_divide(v, divisor), floor_divide(v, divisor) + 1});
              const Interval remainder = range_of(modulo(form, divisor), {{lo, hi}});
              EXPECT_TRUE(remainder.contains(
                  {v - divisor * floor_divide(v, divisor), v - divisor * floor_divide(v, divisor) + 1}));
            }
            EXPECT_EQ(range_of(form, {{lo, hi}}), values);
            EXPECT_EQ(range_of(floor_div(form, divisor), {{lo, hi}}), quotients);
          }
}

// ------------------------------------------------------------ binding

TEST(Bind, ToTextParsesBack) {
  const Bound b = tdl::bind("linear(x, w, b)[..n, o] = sum(k) (x[..n, k] * w[k, o]) + b[o]", {{4, 5, 6}, {6, 7}, {7}});
  EXPECT_EQ(to_text(b),
            "linear(x, w, b) -> out where n.0 < 4, n.1 < 5, k < 6, o < 7 =\n"
            "    out_0[n.0, n.1, o] = sum(k) (x[n.0, n.1, k] * w[k, o])\n"
            "    out[n.0, n.1, o] = (out_0[n.0, n.1, o] + b[o])");
}

TEST(Bind, TextOfManyFormulasKeepsTheirCanonicalForm) {
  struct Case {
    const char* text;
    Shapes shapes;
    Attributes attributes;
  };
  const Case cases[] = {
      {kMatmul, {{8, 4}, {4, 6}}, {}},
      {kSoftmax, {{2, 5, 7}}, {}},
      {"b(b)[..b] = b[..b] * 2", {{3, 4}}, {}},  // an operand and a group of one name
      {"pad(x)[i] where i < x.0 + 5 = x[i - 2] else -1.5", {{7}}, {}},
      {"merge(x)[n, s*x.2 + h] = x[n, s, h]", {{3, 5, 4}}, {}},
      {"resh(x)[i, j] where i < 3, j < 8 = x[(i*8 + j)//6, (i*8 + j)%6]", {{4, 6}}, {}},
      {"emb(ids, t)[..b, h] = t[v = ids[..b], h]", {{3, 2}, {7, 5}}, {}},
      {"chol(a)[..b, i, j] = opaque chol(a[..b, :, :])[i, j]", {{5, 3, 3}}, {}},
      {"drop(x)[..i] = if(rng(seed, 3, lin(..i)) < 0.5 and not (x[..i] > 2e-3), 0, -x[..i] ^ 2)",
       {{5, 7}},
       {{"seed", 7}}},
      {"f(x)[i] = max(x[i], -inf) - (x[i] - (1 - x[i])) / 3", {{4}}, {}},
      {"f(x)[i] where i < 2, r < 3 = max(r) (x[i + r] * max(r, t))", {{4}}, {{"t", 2}}},
  };
  for (const Case& c : cases) {
    const Bound b = tdl::bind(c.text, c.shapes, c.attributes);
    const std::string text = to_text(b);
    const Bound again = tdl::bind(text, c.shapes);
    EXPECT_EQ(to_text(again), text);
    EXPECT_EQ(canonical(again), canonical(b)) << text;
  }
}

TEST(Bind, DocumentedFormulas) {
  const Bound conv = tdl::bind(
      "conv2d(x, w)[n, o, y, z] where y < (x.2 + 2*ph - dh*(w.2-1) - 1)//sh + 1, "
      "z < (x.3 + 2*pw - dw*(w.3-1) - 1)//sw + 1 =\n"
      "    sum(c, r, s) x[n, c, y*sh + r*dh - ph, z*sw + s*dw - pw] * w[o, c, r, s]",
      {{2, 3, 9, 8}, {4, 3, 3, 3}}, {{"ph", 1}, {"pw", 1}, {"sh", 2}, {"sw", 1}, {"dh", 1}, {"dw", 1}});
  EXPECT_EQ(conv.tensors[conv.results[0]].shape, (Shape{2, 4, 5, 8}));
  const Bound pool = tdl::bind(
      "max_pool(x)[n, c, y, z] where y < (x.2 + 2*p - R)//s + 1, z < (x.3 + 2*p - R)//s + 1, r < R, t < R = "
      "max(r, t) x[n, c, y*s + r - p, z*s + t - p] else -inf",
      {{2, 3, 9, 6}}, {{"p", 1}, {"s", 2}, {"R", 3}});
  EXPECT_EQ(pool.tensors[pool.results[0]].shape, (Shape{2, 3, 5, 3}));
  const Bound norm = tdl::bind(
      "batch_norm(x, w, b) -> y, mu, va =                             # several results\n"
      "    mu[c]       = (sum(n, ..s) x[n, c, ..s]) / (ext(n) * ext(..s))\n"
      "    va[c]       = (sum(n, ..s) (x[n, c, ..s] - mu[c])^2) / (ext(n) * ext(..s))\n"
      "    y[n, c, ..s] = (x[n, c, ..s] - mu[c]) / sqrt(va[c] + eps) * w[c] + b[c]",
      {{5, 3, 2, 4}, {3}, {3}}, {{"eps", 0.001}});
  EXPECT_EQ(norm.results.size(), 3u);
  EXPECT_EQ(norm.tensors[norm.results[0]].name, "y");
  EXPECT_EQ(norm.find_tensor("mu"), norm.results[1]);
}

TEST(Bind, NestedEqualReducersMerge) {
  const Bound b = tdl::bind("f(x)[i] = sum(j) (sum(k) x[i, j, k])", {{2, 3, 4}});
  ASSERT_EQ(b.stages.size(), 1u);
  EXPECT_EQ(b.stages[0].body.reduced.size(), 2u);
  EXPECT_EQ(tdl::bind("f(x)[i] = sum(j) (max(k) x[i, j, k])", {{2, 3, 4}}).stages.size(), 2u);
}

TEST(Bind, BroadcastAxesAreReadAtZero) {
  const Bound b = tdl::bind("add(a, b)[..i] = a[..i] + b[..i]", {{3, 1, 5}, {4, 1}});
  EXPECT_EQ(b.tensors[b.results[0]].shape, (Shape{3, 4, 5}));
  EXPECT_EQ(to_text(b),
            "add(a, b) -> out where i.0 < 3, i.1 < 4, i.2 < 5 =\n"
            "    out[i.0, i.1, i.2] = (a[i.0, 0, i.2] + b[i.1, 0])");
}

TEST(Bind, AxesAreFactoredWhereEveryAccessSplits) {
  const Bound split = tdl::bind("spl(x)[n, s, h] where s < x.1//H, h < H = x[n, s*H + h]", {{3, 20}}, {{"H", 4}});
  EXPECT_EQ(split.tensors[0].factored, (Shape{3, 5, 4}));
  EXPECT_EQ(split.tensors[0].radices, (std::vector<Shape>{{3}, {5, 4}}));
  const Bound shifted = tdl::bind("f(x)[r] = \n t[q*x.1 + r] = x[q, r]\n sum(q) x[q, r] * t[r + 2]", {{4, 3}});
  EXPECT_EQ(shifted.tensors[shifted.find_tensor("t")].radices, (std::vector<Shape>{{12}}));  // r + 2 leaves its digit
}

TEST(Bind, AnIndexCanBeFactored) {
  // The product before a split into q, k and v, each of 4: o is split inside each part.
  const Bound b =
      tdl::bind("linear(x, w, c)[..n, o] = sum(k) (x[..n, k] * w[k, o]) + c[o]", {{2, 5, 6}, {6, 12}, {12}});
  const Bound f = factor_index(b, "o", {3, 4});
  EXPECT_EQ(f.tensors[f.results[0]].radices, (std::vector<Shape>{{2}, {5}, {3, 4}}));
  EXPECT_EQ(f.tensors[f.results[0]].shape, b.tensors[b.results[0]].shape);
  EXPECT_EQ(to_string(f, must_derive(f, {2}, {"o.1"})), "o.1: B, S(1.1), S(0.1) -> S(2.1)");
  EXPECT_EQ(to_string(f, must_derive(f, {3}, {"o.0"})), "o.0: B, S(1), S(0) -> S(2)");
  const Bound again = tdl::bind(f.text, {{2, 5, 6}, {6, 12}, {12}});
  EXPECT_EQ(canonical(again), canonical(f));
  EXPECT_EQ(canonical(factor_index(b, "n.1", {5})), canonical(b));
  EXPECT_THROW(factor_index(b, "o", {3, 5}), Error);
  EXPECT_THROW(factor_index(b, "p", {3, 4}), Error);
}

TEST(Bind, LongSumsAndDeepParentheses) {
  std::string sum = "x[i]", nested = "x[i]";
  for (int i = 1; i < 900; ++i) sum += fmt::format(" + x[i - {}]", i);
  for (int i = 0; i < 190; ++i) nested = fmt::format("({} - {})", i, nested);
  for (const std::string& expression : {sum, nested}) {
    const Bound b = tdl::bind("f(x)[i] = " + expression, {{1000}});
    EXPECT_EQ(to_text(tdl::bind(to_text(b), {{1000}})), to_text(b));
    EXPECT_EQ(part_name(b, must_derive(b, {2}, {"i"}), b.results[0]), "S(0)");
    EXPECT_FALSE(canonical(b).empty());
  }
}

TEST(Bind, HugeNumbersAreNoOverflow) {
  EXPECT_NE(error_of("f(x)[i] where i < 4 = x[i * 1000000000000 * 1000000000000]", {{4}}), "accepted");
  EXPECT_NE(error_of("f(x)[i] where i < 1000000000000000000 = x[i]", {{4}}), "accepted");
  const Bound b = tdl::bind(
      "f(x)[i] where i < 1000000000000 = if(i * 1000000000000 < 1e30, x[i * 1000000000000 - 5] else 2, 0)", {{4}});
  EXPECT_EQ(closed_text(must_derive(b, {2}, {"i"}).boxes[0][1]), "nothing");
}

// ------------------------------------------------------------ regions

TEST(Regions, TofuShiftTwo) {
  const Bound b = tdl::bind("shift_two(x)[i] where i < 10 = x[i + 2]", {{12}});
  const Derived d = must_derive(b, {2}, {"i"});
  EXPECT_EQ(closed_text(d.boxes[0][0]), "[2,6]");
  EXPECT_EQ(closed_text(d.boxes[0][1]), "[7,11]");
}

TEST(Regions, TofuConv1dSplitsOnEverything) {
  // Tofu section 4: batch, output channel, output position (with its halo), input channel, filter position.
  const Bound b = tdl::bind(
      "conv1d(data, filters)[b, co, x] where x < data.2 - filters.2 + 1 = "
      "sum(ci, dx) data[b, ci, x + dx] * filters[ci, co, dx]",
      {{4, 6, 12}, {6, 8, 3}});
  EXPECT_EQ(split_names(b), "x b ci co dx");
  EXPECT_EQ(signatures(b),
            (Lines{"x: H(2), B -> S(2)", "b: S(0), B -> S(0)", "ci: S(1), S(0) -> P(sum)", "co: B, S(1) -> S(1)",
                   "dx: H(2), S(2) -> P(sum)", "-: P(sum), B -> P(sum)", "-: B, P(sum) -> P(sum)"}));
  const Derived d = must_derive(b, {2}, {"x"});
  EXPECT_EQ(closed_text(d.boxes[0][0]), "[0,3]x[0,5]x[0,6]");
  EXPECT_EQ(closed_text(d.boxes[0][1]), "[0,3]x[0,5]x[5,11]");
}

TEST(Regions, TofuBatchCholeskySplitsOnItsBatch) {
  const Bound b = tdl::bind("batch_cholesky(a)[b, i, j] = opaque cholesky(a[b, :, :])[i, j]", {{6, 4, 4}});
  EXPECT_EQ(split_names(b), "b");
  EXPECT_EQ(signatures(b), (Lines{"b: S(0) -> S(0)"}));
}

TEST(Regions, EndsAreKeptApartAndClipped) {
  // TDL.md rule 6: half of 6 rows under y*2 + r - 1 is [-1, 5], clipped.
  const Bound b = tdl::bind("f(x)[y] where y < 6, r < 3 = sum(r) x[y*2 + r - 1]", {{12}});
  const Derived d = must_derive(b, {2}, {"y"});
  EXPECT_EQ(closed_text(d.boxes[0][0]), "[0,5]");
  EXPECT_EQ(closed_text(d.boxes[0][1]), "[5,11]");
}

TEST(Regions, GuardsNarrowBothBranches) {
  const Bound b = tdl::bind("cat(a, b)[i] where i < a.0 + b.0 = if(i < a.0, a[i], b[i - a.0])", {{4}, {6}});
  const Derived d = must_derive(b, {2}, {"i"});
  EXPECT_EQ(closed_text(d.boxes[0][0]), "[0,3]");
  EXPECT_EQ(closed_text(d.boxes[1][0]), "[0,0]");
  EXPECT_EQ(closed_text(d.boxes[0][1]), "nothing");
  EXPECT_EQ(closed_text(d.boxes[1][1]), "[1,5]");
}

TEST(Regions, MorePartsThanExtent) {
  const Bound b = tdl::bind(kMatmul, {{2, 3}, {3, 5}});
  const Derived d = must_derive(b, {4}, {"k"});
  int empty = 0;
  for (const Box box : d.boxes[0]) empty += is_empty(box);
  EXPECT_EQ(empty, 1);
  for (const Box box : d.boxes[2]) EXPECT_EQ(volume(box), 10);  // a partial value, the identity if nothing is read
  EXPECT_EQ(to_string(b, d), "k: S(1), S(0) -> P(sum)");
  const Derived rows = must_derive(b, {3}, {"i"});
  EXPECT_EQ(to_string(b, rows), "i: S(0), B -> S(0)");
}

// ------------------------------------------------------------ strategies

TEST(Strategies, Matmul) {
  const Bound b = tdl::bind(kMatmul, {{5, 7}, {7, 3}});
  EXPECT_EQ(signatures(b), (Lines{"i: S(0), B -> S(0)", "k: S(1), S(0) -> P(sum)", "j: B, S(1) -> S(1)",
                                  "-: P(sum), B -> P(sum)", "-: B, P(sum) -> P(sum)"}));
  const auto all = strategies(b, 2);
  Lines texts;
  for (const AxisStrategy& s : all) texts.push_back(to_string(s));
  EXPECT_EQ(texts, (Lines{"i", "k", "j", "partial{a}", "partial{b}", "replicate"}));
}

TEST(Strategies, Linear) {
  const Bound b = tdl::bind("linear(x, w, c)[..n,o] = sum(k) x[..n,k] * w[o,k] + c[o]", {{5, 7}, {3, 7}, {3}});
  EXPECT_EQ(signatures(b),
            (Lines{"n.0: S(0), B, B -> S(0)", "k: S(1), S(1), P(sum) -> P(sum)",
                   "k: S(1), S(1), B -> B   [inner out_0:sum->B]", "o: B, S(0), S(0) -> S(1)",
                   "-: P(sum), B, P(sum) -> P(sum)", "-: B, P(sum), P(sum) -> P(sum)", "-: B, B, P(max) -> P(max)"}));
}

TEST(Strategies, JoiningIsAClosure) {
  std::string operands, sum, shapes_of;
  Shapes shapes = {{5, 7}, {7}};
  for (int i = 0; i < 6; ++i) {
    operands += fmt::format(", b{}", i);
    sum += fmt::format(" + b{}[i]", i);
    shapes.push_back({5});
  }
  const Bound b = tdl::bind("f(a, w" + operands + ")[i] = sum(k) (a[i, k] * w[k])" + sum, shapes);
  const auto all = strategies(b, 2);
  EXPECT_TRUE(std::count(all.begin(), all.end(), parse_strategy("k partial{b0,b1,b2,b3,b4,b5}")));
  EXPECT_TRUE(std::count(all.begin(), all.end(), parse_strategy("k")));
  EXPECT_TRUE(std::count(all.begin(), all.end(), parse_strategy("partial{a,b0,b1,b2,b3,b4,b5}")));
}

TEST(Strategies, Softmax) {
  const Bound b = tdl::bind(kSoftmax, {{5, 7}});
  EXPECT_EQ(signatures(b), (Lines{"b.0: S(0) -> S(0)", "j: S(1) -> S(1)   [inner m:max->B, s:sum->B]"}));
  const Derived d = must_derive(b, {3}, {"j"});
  ASSERT_EQ(d.inner.size(), 2u);
  EXPECT_EQ(d.inner[0].before_stage, 1);
  EXPECT_EQ(d.inner[0].reducer, Reducer::kMax);
  EXPECT_EQ(d.inner[1].before_stage, 3);
  EXPECT_EQ(d.kinds[0][b.find_tensor("s")], Kind(Reducer::kSum));
  EXPECT_EQ(d.final_kinds[0][b.find_tensor("s")], std::nullopt);
}

TEST(Strategies, BatchNorm) {
  const Bound b = tdl::bind(
      "bn(x, w, b) -> y, mu, va =\n"
      "    mu[c] = (sum(n,..s) x[n,c,..s]) / (ext(n) * ext(..s))\n"
      "    va[c] = (sum(n,..s) (x[n,c,..s] - mu[c])^2) / (ext(n) * ext(..s))\n"
      "    y[n,c,..s] = (x[n,c,..s] - mu[c]) / sqrt(va[c] + 0.001) * w[c] + b[c]",
      {{5, 3, 2, 4}, {3}, {3}});
  EXPECT_EQ(signatures(b), (Lines{"s.0: S(2), B, B -> S(2), B, B   [inner mu:sum->B, va:sum->B]",
                                  "s.1: S(3), B, B -> S(3), B, B   [inner mu:sum->B, va:sum->B]",
                                  "n: S(0), B, B -> S(0), B, B   [inner mu:sum->B, va:sum->B]",
                                  "c: S(1), S(0), S(0) -> S(1), S(0), S(0)", "-: B, P(sum), P(sum) -> P(sum), B, B",
                                  "-: B, B, P(max) -> P(max), B, B"}));
}

TEST(Strategies, CausalAttentionWithGuardsInTheReducers) {
  const Bound b = tdl::bind(
      "attention(q, k, v)[n, h, i, d] =\n"
      "    s[n, h, i, j] = sum(e) if(j <= i + O, q[n, h, i, e] * k[n, h, j, e], 0)\n"
      "    m[n, h, i]    = max(j) if(j <= i + O, scale * s[n, h, i, j], -inf)\n"
      "    p[n, h, i, j] = if(j <= i + O, exp(scale * s[n, h, i, j] - m[n, h, i]), 0)\n"
      "    l[n, h, i]    = sum(j) if(j <= i + O, p[n, h, i, j], 0)\n"
      "    a[n, h, i, d] = sum(j) if(j <= i + O, p[n, h, i, j] * v[n, h, j, d], 0)\n"
      "    a[n, h, i, d] / l[n, h, i]",
      {{2, 3, 5, 3}, {2, 3, 7, 3}, {2, 3, 7, 4}}, {{"O", 2}, {"scale", 0.5}});
  EXPECT_EQ(signatures(b), (Lines{"n: S(0), S(0), S(0) -> S(0)", "h: S(1), S(1), S(1) -> S(1)",
                                  "i: S(2), H(2), H(2) -> S(2)", "e: S(3), S(3), B -> B   [inner s:sum->B]",
                                  "j: H(2), S(2), S(2) -> P(sum)   [inner m:max->B, l:sum->B]", "d: B, B, S(3) -> S(3)",
                                  "-: B, B, P(sum) -> P(sum)"}));
}

TEST(Strategies, AStageMadeWholeIsWholeForEveryRead) {
  const Bound b = tdl::bind("f(a)[i] =\n s[i] = sum(k) a[i,k]\n s[i] * max(s[i], 0)", {{5, 7}});
  EXPECT_EQ(signatures(b), (Lines{"i: S(0) -> S(0)", "k: S(1) -> B   [inner s:sum->B]"}));
}

TEST(Strategies, InnerHaloAndTwoNames) {
  const Bound b = tdl::bind(
      "two(x)[y] where y < x.0, r < 3, t < 3 =\n a[y] = sum(r) x[y + r - 1]\n sum(t) max(a[y + t - 1], 0)", {{13}});
  EXPECT_EQ(signatures(b),
            (Lines{"y: H(0) -> S(0)   [inner a:fetch]", "r: H(0) -> B   [inner a:sum->B]", "t: B -> P(sum)"}));
  const Derived d = must_derive(b, {2}, {"y"});
  ASSERT_EQ(d.inner.size(), 1u);
  EXPECT_EQ(closed_text(d.inner[0].needed[0]), "[0,6]");
  EXPECT_EQ(closed_text(d.inner[0].needed[1]), "[5,12]");
  EXPECT_EQ(closed_text(d.boxes[b.find_tensor("a")][0]), "[0,5]");

  const Bound clip = tdl::bind(
      "clip(a, b, L) -> ao, bo =\n"
      "    n[] = sqrt(sum(..i) a[..i]^2 + sum(..k) b[..k]^2)\n"
      "    f[] = min(1, L[] / n[])\n"
      "    ao[..i] = a[..i] * f[]\n"
      "    bo[..k] = b[..k] * f[]",
      {{5, 3}, {7}, {}});
  EXPECT_EQ(to_string(clip, must_derive(clip, {2}, {"{i.0 k.0}"})),
            "{i.0 k.0}: S(0), S(0), B -> S(0), S(0)   [inner n_0:sum->B, n_1:sum->B]");
  EXPECT_EQ(reason_not_derived(clip, {2}, {"{i.0 i.1}"}), "two of the names meet in one stage");
}

TEST(Strategies, DataIndices) {
  const Bound b = tdl::bind("embedding(ids, t)[..b, h] = t[v = ids[..b], h]", {{3, 2}, {7, 5}});
  EXPECT_EQ(signatures(b), (Lines{"b.0: S(0), B -> S(0)", "b.1: S(1), B -> S(1)", "h: B, S(1) -> S(2)",
                                  "v: B, S(0) -> P(sum)", "-: B, P(sum) -> P(sum)"}));
}

TEST(Strategies, FactoredAxes) {
  const Bound merge = tdl::bind("merge(x)[n, s*x.2 + h] = x[n, s, h]", {{3, 5, 4}});
  EXPECT_EQ(signatures(merge), (Lines{"n: S(0) -> S(0)", "s: S(1) -> S(1.0)", "h: S(2) -> S(1.1)",
                                      "-: P(sum) -> P(sum)", "-: P(max) -> P(max)"}));
  const Bound even = tdl::bind("merge(x)[n, s*x.2 + h] = x[n, s, h]", {{3, 6, 4}});
  EXPECT_EQ(signatures(even)[1], "s: S(1) -> S(1)");  // if the parts of the sub-axis are the parts of the axis
  const Bound lstm = tdl::bind(
      "lstm(x, h, c, w, u, b) -> hn, cn where q < 4, j < h.1 =\n"
      "    z[n,q,j] = sum(k) x[n,k] * w[q*ext(j) + j, k] + sum(m) h[n,m] * u[q*ext(j) + j, m] + b[q*ext(j) + j]\n"
      "    cn[n,j] = sigmoid(z[n,1,j]) * c[n,j] + sigmoid(z[n,0,j]) * tanh(z[n,2,j])\n"
      "    hn[n,j] = sigmoid(z[n,3,j]) * tanh(cn[n,j])",
      {{3, 4}, {3, 5}, {3, 5}, {20, 4}, {20, 5}, {20}});
  EXPECT_EQ(to_string(lstm, must_derive(lstm, {2}, {"j"})), "j: B, B, S(1), S(0.1), S(0.1), S(0.1) -> S(1), S(1)");
  const Bound rotary = tdl::bind(
      "rope(x, c, s)[n,t,u*ext(d) + d] where u < 2, d < x.2//2 = "
      "x[n,t,u*ext(d) + d] * c[t,d] + (2*u - 1) * x[n,t,(1-u)*ext(d) + d] * s[t,d]",
      {{2, 5, 6}, {5, 3}, {5, 3}});
  EXPECT_EQ(to_string(rotary, must_derive(rotary, {2}, {"d"})), "d: S(2.1), S(1), S(1) -> S(2.1)");
  const Bound grouped = tdl::bind(
      "conv(x, w)[n, g*(w.0//G) + o, y] where g < G, o < w.0//G, y < x.2 - w.2 + 1 = "
      "sum(c, r) x[n, g*w.1 + c, y + r] * w[g*(w.0//G) + o, c, r]",
      {{2, 6, 5}, {6, 2, 3}}, {{"G", 3}});
  EXPECT_EQ(to_string(grouped, must_derive(grouped, {2}, {"o"})), "o: B, S(0.1) -> S(1.1)");
  EXPECT_EQ(to_string(grouped, must_derive(grouped, {3}, {"g"})), "g: S(1), S(0) -> S(1)");
}

TEST(Strategies, StridedPartsAreNotDerived) {
  const Bound b = tdl::bind("f(x)[r] where q < 4 =\n t[q*x.1 + r] = x[q,r]\n sum(q) x[q,r] * t[r + 2]", {{4, 3}});
  EXPECT_EQ(reason_not_derived(b, {2}, {"r"}), "a position's part of t is not one box");
  EXPECT_EQ(split_names(b), "q");
}

TEST(Strategies, TwoMeshAxes) {
  const Bound b = tdl::bind(kMatmul, {{6, 8}, {8, 12}});
  EXPECT_EQ(to_string(b, must_derive(b, {2, 2}, {"i", "j"})), "i,j: [S(0),B], [B,S(1)] -> [S(0),S(1)]");
  EXPECT_EQ(to_string(b, must_derive(b, {2, 2}, {"i", "k"})), "i,k: [S(0),S(1)], [B,S(0)] -> [S(0),P(sum)]");
  // one index on two axes is one split into their product, outermost most significant
  const Derived twice = must_derive(b, {2, 3}, {"j", "j"}), once = must_derive(b, {6}, {"j"});
  EXPECT_EQ(twice.ranges, once.ranges);
  EXPECT_EQ(twice.boxes, once.boxes);
  EXPECT_EQ(to_string(b, twice), "j,j: [B,B], [S(1),S(1)] -> [S(1),S(1)]");

  const Bound two = tdl::bind("f(a, b)[i] = a[i] + (max(j) b[i, j])", {{4}, {4, 6}});
  EXPECT_EQ(reason_not_derived(two, {2, 2}, {"j", "partial{a}"}), "a must be whole where it is read");
  const Bound results = tdl::bind("f(a)[i, k] = if(i < 2, a[i, k], a[i + 0, k])", {{4, 5}});
  EXPECT_EQ(reason_not_derived(results, {2, 2}, {"partial{a}", "partial:max{a}"}),
            "a would be partial under two reducers");
}

TEST(Strategies, JointRegionsCanBeSmallerThanTheProduct) {
  const Bound b = tdl::bind("f(x)[i] where i < x.0 = sum(k) if(k <= i, x[k], 0)", {{8}});
  const Derived d = must_derive(b, {2, 2}, {"i", "k"});
  EXPECT_EQ(closed_text(d.boxes[0][0]), "[0,3]");
  EXPECT_EQ(closed_text(d.boxes[0][1]), "nothing");  // i < 4 and k >= 4
}

TEST(Strategies, TextParsesBack) {
  for (const char* text : {"k", "b.0", "k partial{b}", "replicate", "partial{a,b}", "partial:max{a}", "{j m}",
                           "{j m} partial{b}", "partial", "replicated"})
    EXPECT_EQ(to_string(parse_strategy(text)), text);
  for (const char* text : {"", "k l", "{j", "partial{", "partial:mean{a}", "k partial{a} x", "partial{a}}"})
    EXPECT_THROW(parse_strategy(text), Error) << text;
}

// ------------------------------------------------------------ canonical forms

TEST(Canonical, EqualUnderRenamingAndSortedSums) {
  const Shapes shapes = {{5, 7}, {7, 3}};
  const std::string form = canonical(tdl::bind(kMatmul, shapes));
  EXPECT_EQ(form, canonical(tdl::bind("mm(x, y)[p, q] = sum(r) y[r, q] * x[p, r]", shapes)));
  EXPECT_EQ(form, canonical(tdl::bind("mm(x, y) -> z where r < 7 =\n z[p, q] = sum(r) x[p, r] * y[r, q]", shapes)));
  EXPECT_NE(form, canonical(tdl::bind("mm(x, y)[q, p] = sum(r) x[p, r] * y[r, q]", shapes)));
  EXPECT_NE(form, canonical(tdl::bind(kMatmul, {{5, 7}, {7, 4}})));
  auto square = [](const char* text) { return canonical(tdl::bind(text, {{4, 4}})); };
  EXPECT_EQ(square("gram(x)[i, j] = sum(k) x[i, k] * x[j, k]"), square("gram(x)[i, j] = sum(k) x[j, k] * x[i, k]"));
  EXPECT_NE(square("gram(x)[i, j] = sum(k) x[i, k] * x[j, k]"), square("sq(x)[i, j] = sum(k) x[i, k] * x[k, j]"));
  EXPECT_EQ(square("f(x)[i] = sum(j, k) x[i, j] * x[j, k]"), square("f(x)[i] = sum(b, a) x[i, b] * x[b, a]"));
  EXPECT_NE(square("f(x)[i, j] = x[i, j] - x[j, i]"), square("f(x)[i, j] = x[j, i] - x[i, j]"));
  EXPECT_EQ(square("f(x)[i, j] = 1 + x[i, j] + x[j, i]"), square("f(x)[i, j] = x[j, i] + (x[i, j] + 1)"));
}

TEST(Canonical, Elementwise) {
  for (const char* one : {"relu(x)[..i] = max(x[..i], 0)", "tr(x)[j, i] = x[i, j]", kSoftmax})
    EXPECT_TRUE(takes_one_pass(tdl::bind(one, {{5, 7}}))) << one;
  EXPECT_TRUE(takes_one_pass(tdl::bind("add(a, b)[..i] = a[..i] + b[..i]", {{5, 7}, {7}})));
  EXPECT_FALSE(reduces(tdl::bind("tr(x)[j, i] = x[i, j]", {{5, 7}})));
  EXPECT_TRUE(reduces(tdl::bind(kSoftmax, {{5, 7}})));
  EXPECT_FALSE(takes_one_pass(tdl::bind("mm(a, b)[i, j] = sum(k) a[i, k] * b[k, j]", {{5, 7}, {7, 6}})));
  EXPECT_FALSE(takes_one_pass(tdl::bind("blur(x)[i] where i < x.0 - 2, d < 3 = sum(d) x[i + d]", {{9}})));
  EXPECT_TRUE(is_elementwise(tdl::bind("relu(x)[..i] = max(x[..i], 0)", {{5, 7}})));
  EXPECT_TRUE(is_elementwise(
      tdl::bind("sgd(w, g, m, lr) -> wn, mn =\n mn[..i] = 0.9 * m[..i] + g[..i]\n wn[..i] = w[..i] - lr[] * mn[..i]",
                {{5, 3}, {5, 3}, {5, 3}, {}})));
  EXPECT_FALSE(is_elementwise(tdl::bind("tr(x)[j, i] = x[i, j]", {{5, 7}})));
  EXPECT_FALSE(is_elementwise(tdl::bind("add(a, b)[..i] = a[..i] + b[..i]", {{5, 7}, {7}})));
  EXPECT_FALSE(is_elementwise(tdl::bind(kSoftmax, {{5, 7}})));
}

TEST(Lints, AnAxisUnderTwoNames) {
  EXPECT_TRUE(lint_warnings(tdl::bind(kSoftmax, {{5, 7}})).empty());
  EXPECT_TRUE(lint_warnings(tdl::bind("gram(x)[i, j] = sum(k) x[i, k] * x[j, k]", {{5, 4}})).empty());
  const Bound b = tdl::bind(
      "sm(x)[b,j] =\n m[b] = max(j) x[b,j]\n s[b] = sum(k) exp(x[b,k] - m[b])\n log(x[b,j]) / s[b]", {{5, 7}});
  EXPECT_EQ(lint_warnings(b),
            (Lines{"axis 1 of x is read by j and by k, which never meet: under one name, a split would reach both"}));
}

}  // namespace
}  // namespace partita::tdl
