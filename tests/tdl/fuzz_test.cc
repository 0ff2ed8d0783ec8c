// Random formulas: every derived strategy on 2 and 3 workers, and pairs of strategies on two mesh axes, against the
// unsharded formula. PARTITA_FUZZ_SEED sets the seed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/tdl/testing/check.h"
#include "partita/tdl/testing/formulas.h"
#include "partita/tdl/testing/instances.h"

namespace partita::tdl {
namespace {

struct Counts {
  int formulas = 0, unbound = 0, runs = 0, conversions = 0, fetches = 0, partial = 0, sets = 0, pairs = 0, refused = 0;
};

void fuzz(uint64_t seed, int formulas, Counts& n) {
  for (; n.formulas < formulas && !::testing::Test::HasFailure(); ++seed) {
    Rng rng(seed);
    testing::Formula f = testing::random_formula(rng);
    SCOPED_TRACE(fmt::format("seed {}, shapes {}\n{}", seed, fmt::join(f.shapes, " "), f.text));
    Bound bound;
    try {
      bound = tdl::bind(f.text, f.shapes);
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ExitCode::kBadInput) << e.what();
      ++n.unbound;
      continue;
    }
    ++n.formulas;
    std::vector<Array> in;
    for (const Shape& shape : f.shapes) in.push_back(testing::normal_array(shape, rng.next()));
    std::vector<AxisStrategy> on[2];
    for (int p : {2, 3}) {
      on[p - 2] = strategies(bound, p);
      for (const AxisStrategy& s : on[p - 2]) {
        std::optional<Derived> d = derive(bound, {p}, {s});
        ASSERT_TRUE(d) << to_string(s) << " is listed and not derived on " << p;
        std::string wrong = testing::check(bound, *d, in, rng.next()).wrong;
        ASSERT_EQ(wrong, "") << to_string(bound, *d) << " on " << p << " workers";
        ++n.runs;
        n.partial += !s.partial.empty();
        n.sets += s.names.size() > 1;
        bool converts = false, fetches = false;
        for (const InnerStep& step : d->inner) (step.needed.empty() ? converts : fetches) = true;
        n.conversions += converts;
        n.fetches += fetches;
      }
    }
    for (int q = 0; q < 4 && !on[0].empty() && !on[1].empty(); ++q) {
      AxisStrategy a = on[0][rng.below(on[0].size())], b = on[1][rng.below(on[1].size())];
      std::optional<Derived> d = derive(bound, {2, 3}, {a, b});
      if (!d) {
        ++n.refused;
        continue;
      }
      std::string wrong = testing::check(bound, *d, in, rng.next()).wrong;
      ASSERT_EQ(wrong, "") << to_string(a) << " x " << to_string(b) << " on 2x3";
      ++n.pairs;
    }
  }
}

void run(uint64_t seed, int formulas) {
  if (const char* given = std::getenv("PARTITA_FUZZ_SEED")) seed = std::strtoull(given, nullptr, 10);
  fmt::print("seed {}\n", seed);
  Counts n;
  fuzz(seed, formulas, n);
  fmt::print(
      "{} formulas ({} did not bind), {} runs: {} with inner conversions, {} with inner fetches, {} with partial "
      "operands, "
      "{} with two names; {} pairs on two mesh axes, {} pairs refused\n",
      n.formulas, n.unbound, n.runs, n.conversions, n.fetches, n.partial, n.sets, n.pairs, n.refused);
  if (::testing::Test::HasFailure()) return;
  EXPECT_LT(n.unbound, n.formulas);
  EXPECT_GT(n.conversions, formulas / 2);
  EXPECT_GT(n.fetches, formulas / 10);
  EXPECT_GT(n.partial, formulas / 4);
  EXPECT_GT(n.pairs, formulas);
}

// <cotangents, results>, and the sum of its absolute terms.
struct Weighted {
  double value = 0, terms = 0;
};
Weighted weighted(const Bound& bound, const std::vector<Array>& in, const std::vector<Array>& cotangents) {
  std::vector<Array> out = evaluate(bound, in, {nullptr, true, nullptr});
  Weighted w;
  for (size_t r = 0; r < out.size(); ++r)
    for (int64_t i = 0; i < volume(out[r].shape); ++i) {
      w.value += out[r].at(i) * cotangents[r].reals[i];
      w.terms += out[r].term(i) * std::abs(cotangents[r].reals[i]);
    }
  return w;
}

// The difference between a derived and a numeric derivative in a random direction, relative to the sum of absolute
// terms.
double gradient_error(const Bound& bound, int operand, const std::vector<Array>& in,
                      const std::vector<Array>& cotangents, uint64_t seed) {
  constexpr double kStep = 1e-6;
  Array direction = testing::normal_array(in[operand].shape, seed);
  std::vector<Array> up = in, down = in;
  for (size_t i = 0; i < direction.reals.size(); ++i) {
    up[operand].reals[i] += kStep * direction.reals[i];
    down[operand].reals[i] -= kStep * direction.reals[i];
  }
  Weighted above = weighted(bound, up, cotangents), below = weighted(bound, down, cotangents);
  double numeric = (above.value - below.value) / (2 * kStep), derived = 0, size = 1 + std::abs(numeric);
  size += 0x1p-50 * (above.terms + below.terms) / kStep * 1e6;  // what rounding does to the difference
  std::optional<Gradient> g = gradient(bound, operand);
  if (!g) return std::abs(numeric) / size;
  std::vector<Array> given;
  std::vector<Shape> shapes;
  for (const std::string& name : g->operands) {
    if (int t = bound.find_tensor(name); t >= 0 && t < bound.operand_count) given.push_back(in[t]);
    for (size_t r = 0; r < bound.results.size(); ++r)
      if ("g_" + bound.tensors[bound.results[r]].name == name) given.push_back(cotangents[r]);
    shapes.push_back(given.back().shape);
  }
  Array d = evaluate(tdl::bind(g->text, shapes), given)[0];
  for (size_t i = 0; i < direction.reals.size(); ++i) {
    derived += d.at(i) * direction.reals[i];
    size += std::abs(d.at(i) * direction.reals[i]);
  }
  return std::abs(numeric - derived) / size;
}

// Tells whether a reducer is max or min: where terms tie, each gets the whole gradient, which no numeric derivative
// shows.
bool may_tie(const Bound& bound) {
  for (const Stage& stage : bound.stages)
    if (stage.body.kind == ExprKind::kReduce && stage.body.reducer != Reducer::kSum) return true;
  return false;
}

void fuzz_gradients(uint64_t seed, int wanted) {
  fmt::print("seed {}\n", seed);
  int checked = 0;
  for (; checked < wanted; ++seed) {
    Rng rng(seed);
    testing::Formula f = testing::random_formula(rng);
    Bound bound = tdl::bind(f.text, f.shapes);
    EXPECT_EQ(canonical(tdl::bind(to_text(bound), f.shapes)), canonical(bound)) << "seed " << seed << "\n" << f.text;
    if (may_tie(bound)) continue;
    std::vector<Array> in, cotangents;
    for (const Shape& shape : f.shapes) in.push_back(testing::normal_array(shape, rng.next()));
    for (int r : bound.results) cotangents.push_back(testing::normal_array(bound.tensors[r].shape, rng.next()));
    for (int o = 0; o < bound.operand_count; ++o) {
      double error = 1;  // the least of three directions: a step can cross a kink, but not in all
      for (int attempt = 0; attempt < 3 && error > 1e-6; ++attempt)
        error = std::min(error, gradient_error(bound, o, in, cotangents, rng.next()));
      ASSERT_LE(error, 1e-6) << "seed " << seed << ", operand " << bound.tensors[o].name << ", shapes "
                             << fmt::format("{}", fmt::join(f.shapes, " ")) << "\n"
                             << f.text << "\n"
                             << (gradient(bound, o) ? gradient(bound, o)->text : "none");
      ++checked;
    }
  }
}

TEST(Fuzz, GradientsOfRandomFormulas) { fuzz_gradients(5000, 400); }
TEST(LongFuzz, GradientsOfRandomFormulas) { fuzz_gradients(100000, 20000); }

void expect_same(const std::optional<Derived>& a, const std::optional<Derived>& b) {
  ASSERT_EQ(a.has_value(), b.has_value());
  if (!a) return;
  EXPECT_EQ(a->ranges, b->ranges);
  EXPECT_EQ(a->boxes, b->boxes);
  EXPECT_EQ(a->kinds, b->kinds);
  EXPECT_EQ(a->final_kinds, b->final_kinds);
  ASSERT_EQ(a->inner.size(), b->inner.size());
  for (size_t i = 0; i < a->inner.size(); ++i) {
    const InnerStep &x = a->inner[i], &y = b->inner[i];
    EXPECT_TRUE(x.before_stage == y.before_stage && x.tensor == y.tensor && x.axes == y.axes &&
                x.reducer == y.reducer && x.needed == y.needed);
  }
}

// What a Deriver remembers of the strategies before changes none that follows: all pairs of them, in a random order.
TEST(Fuzz, ManyStrategiesOfOneFormula) {
  const uint64_t seed = 20270;
  fmt::print("seed {}\n", seed);
  Rng rng(seed);
  int derived = 0, refused = 0;
  for (int formulas = 0; formulas < 1500 && !::testing::Test::HasFailure();) {
    const testing::Formula f = testing::random_formula(rng);
    std::optional<Bound> bound;
    try {
      bound = tdl::bind(f.text, f.shapes);
    } catch (const Error&) {
      continue;
    }
    ++formulas;
    std::vector<std::vector<AxisStrategy>> pairs;
    for (const AxisStrategy& a : strategies(*bound, 2))
      for (const AxisStrategy& b : strategies(*bound, 3)) pairs.push_back({a, b});
    rng.shuffle(pairs);
    if (pairs.size() > 60) pairs.resize(60);
    Deriver deriver(*bound, {2, 3});
    for (const std::vector<AxisStrategy>& axes : pairs) {
      SCOPED_TRACE(fmt::format("formula {}, {} and {}\n{}", formulas, to_string(axes[0]), to_string(axes[1]), f.text));
      NotDerived why, why_at_once;
      const auto one = derive(*bound, {2, 3}, axes, &why), of_many = deriver.derive(axes, &why_at_once);
      expect_same(one, of_many);
      EXPECT_EQ(why.why, why_at_once.why);
      ++(one ? derived : refused);
    }
  }
  EXPECT_GT(derived, 10000);
  EXPECT_GT(refused, 10);
}

TEST(Fuzz, RandomFormulas) { run(20260, 250); }
TEST(LongFuzz, RandomFormulas) { run(1, 20000); }

}  // namespace
}  // namespace partita::tdl
