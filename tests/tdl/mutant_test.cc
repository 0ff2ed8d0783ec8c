// Wrong rules, each of which the checks must catch: a test of the tests. The library is built with PARTITA_TDL_MUTANTS,
// and partita/tdl/mutant.h switches one rule at a time.
#include "partita/tdl/mutant.h"

#include <gtest/gtest.h>

#include <utility>

#include "partita/base/error.h"
#include "partita/tdl/testing/suite.h"

namespace partita::tdl {
namespace {

using testing::Instance;
using testing::instances;
using testing::StrategyRun;

constexpr std::pair<const char*, const char*> kMutants[] = {
    {"div_ceil", "the interval of a floor division rounds up"},
    {"mod_no_wrap", "% of an interval that wraps"},
    {"neg_no_swap", "a negative factor does not swap the ends (Tofu's Figure 4 as printed)"},
    {"guard_strict", "<= in a guard taken for <"},
    {"guard_trunc", "C++'s truncating division in a guard"},
    {"trunc_div", "C++'s truncating division for //"},
    {"else_guard", "the else branch under the guard, not its negation"},
    {"no_broadcast", "an operand of extent 1 is read at i"},
    {"local_iota", "an index's value is its local offset"},
    {"else_zero", "the fill value is ignored: max pooling pads with 0"},
    {"ceil_split", "parts of ceil(n / p) instead of balanced ones"},
    {"no_guard", "guards do not narrow"},
    {"hi_short", "regions end one short"},
    {"lo_long", "regions begin one late"},
    {"no_halo", "the window's index is dropped"},
    {"fat_halo", "the halo is one too wide"},
    {"first_access", "an operand's region is its first access alone"},
    {"p_in_scope", "a partial value is read under the split index"},
    {"no_conversion", "an inner P -> B is left out"},
    {"no_fetch", "an inner halo is left out"},
    {"conv_wrong_r", "an inner P(max) is reduced with sum"},
    {"add_FP", "F + P(sum) is P(sum): the bias is added p times"},
    {"B_as_P", "B -> P without the identity on all but one"},
    {"sub_no_flip", "c - P(max) is P(max)"},
    {"max_plus_max", "P(max) + P(max) is P(max)"},
    {"mul_PP", "P * P is P"},
    {"max_scale", "P(max) times a value of any sign is P(max)"},
    {"div_by_P", "F / P is P"},
    {"relu_linear", "max(P(sum), 0) is P(sum)"},
    {"exp_linear", "exp(P(sum)) is P(sum)"},
    {"abs_mono", "abs(P(max)) is P(max)"},
    {"if_const", "if(c, P, constant) is P"},
    {"else_linear", "x[..] else v is linear for v != 0"},
    {"max_as_sum", "max over a split index is P(sum)"},
    {"sum_of_max", "sum(P(max)) is P(max)"},
    {"max_of_sum", "max(P(sum)) is P(sum)"},
    {"no_fixpoint", "a stage is read both linearly and not"},
    {"owned_hull", "a strided result is taken for its hull"},
    {"set_meets", "two names of one stage are split on one axis"},
};

struct Baseline {
  std::vector<Array> results;
  std::vector<std::vector<StrategyRun>> runs;  // on 2, 3, 4 workers
};

std::vector<Array> evaluate_instance(const Instance& instance) {
  OpaqueRegistry opaques = standard_opaques();
  return evaluate(testing::bind(instance), testing::operands(instance, 7), {&opaques, true, nullptr});
}

const std::vector<Baseline>& baselines() {
  static const std::vector<Baseline> kBaselines = [] {
    std::vector<Baseline> all;
    for (const Instance& instance : instances()) {
      Baseline b;
      b.results = evaluate_instance(instance);
      for (int p : {2, 3, 4}) b.runs.push_back(testing::run_strategies(instance, p));
      all.push_back(std::move(b));
    }
    return all;
  }();
  return kBaselines;
}

// What shows that an instance goes wrong: its unsharded value, a strategy that is not right, a region that is loose
// where it was not, or another strategy list. Empty if nothing does. `by_golden`: only the list does.
std::string complaint(const Instance& instance, const Baseline& base, bool& by_golden) {
  by_golden = false;
  std::vector<Array> results = evaluate_instance(instance);
  for (size_t r = 0; r < results.size(); ++r)
    if (std::string d = testing::difference(results[r], base.results[r], 1e-11); !d.empty())
      return "the unsharded formula: " + d;
  std::string golden;
  for (int p : {2, 3, 4}) {
    std::vector<StrategyRun> runs = testing::run_strategies(instance, p);
    const std::vector<StrategyRun>& before = base.runs[p - 2];
    for (const StrategyRun& run : runs) {
      if (!run.wrong.empty()) return fmt::format("{} on {}: {}", run.text, p, run.wrong);
      for (const StrategyRun& old : before)
        if (old.strategy == run.strategy)
          for (const std::string& t : run.loose)
            if (!old.loose.contains(t)) return fmt::format("{} on {}: the region of {} is not tight", run.text, p, t);
    }
    if (!golden.empty()) continue;
    for (size_t i = 0; i < std::max(runs.size(), before.size()); ++i) {
      std::string now = i < runs.size() ? runs[i].text : "nothing",
                  then = i < before.size() ? before[i].text : "nothing";
      if (now != then) {
        golden = fmt::format("golden text on {}: {} instead of {}", p, now, then);
        break;
      }
    }
  }
  by_golden = !golden.empty();
  return golden;
}

// Two names that meet in one stage are never enumerated: asked for directly, they must be refused.
std::string meeting_names() {
  const Instance& matmul = testing::named("matmul");
  Bound bound = testing::bind(matmul);
  std::optional<Derived> derived = derive(bound, {2}, {parse_strategy("{i j}")});
  if (!derived) return "";
  return "matmul: {i j} on 2: " + testing::check(bound, *derived, testing::operands(matmul, 7), 1).wrong;
}

// "INSTANCE: what went wrong" for the first instance that does, those that only the golden text shows last.
std::string caught() {
  std::string golden;
  for (size_t i = 0; i < instances().size(); ++i) {
    bool by_golden = false;
    std::string what;
    try {
      what = complaint(instances()[i], baselines()[i], by_golden);
    } catch (const std::exception& e) {
      what = e.what();
    }
    if (what.empty()) continue;
    what = fmt::format("{}: {}", instances()[i].name, what);
    if (!by_golden) return what;
    if (golden.empty()) golden = what;
  }
  return golden.empty() ? meeting_names() : golden;
}

struct Switched {
  explicit Switched(const char* name) { active_mutant = name; }
  ~Switched() { active_mutant = {}; }
};

TEST(ManyMutants, WithoutAnyNothingIsCaught) { EXPECT_EQ(caught(), ""); }

TEST(ManyMutants, EachWrongRuleIsCaught) {
  EXPECT_EQ(std::size(kMutants), 39u);
  baselines();  // before any switch
  int missed = 0;
  for (const auto& [name, what] : kMutants) {
    Switched on(name);
    std::string by = caught();
    EXPECT_NE(by, "") << name << ": " << what << " goes unnoticed";
    missed += by.empty();
    fmt::print("{:<15}{}\n    {}\n", name, what, by.substr(0, 200));
  }
  fmt::print("{} of {} caught\n", std::size(kMutants) - missed, std::size(kMutants));
}

}  // namespace
}  // namespace partita::tdl
