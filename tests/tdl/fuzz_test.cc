// Random formulas: every derived strategy on 2 and 3 workers, and pairs of strategies on two mesh axes, against the
// unsharded formula. PARTITA_FUZZ_SEED sets the seed.
#include <gtest/gtest.h>

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
  fmt::print("{} formulas ({} did not bind), {} runs: {} with inner conversions, {} with inner fetches, {} with partial operands, "
             "{} with two names; {} pairs on two mesh axes, {} pairs refused\n",
             n.formulas, n.unbound, n.runs, n.conversions, n.fetches, n.partial, n.sets, n.pairs, n.refused);
  if (::testing::Test::HasFailure()) return;
  EXPECT_LT(n.unbound, n.formulas);
  EXPECT_GT(n.conversions, formulas / 2);
  EXPECT_GT(n.fetches, formulas / 10);
  EXPECT_GT(n.partial, formulas / 4);
  EXPECT_GT(n.pairs, formulas);
}

TEST(Fuzz, RandomFormulas) { run(20260, 250); }
TEST(LongFuzz, RandomFormulas) { run(1, 20000); }

}  // namespace
}  // namespace partita::tdl
