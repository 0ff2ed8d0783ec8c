// Tests the generic stage kernel against the reference evaluator: every operator instance, its gradients, random
// formulas; whole, and under every derived strategy.
#include <gtest/gtest.h>

#include <cstdlib>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/tdl/testing/formulas.h"
#include "partita/tdl/testing/instances.h"
#include "tests/kernels/runner.h"

namespace partita::testing {
namespace {

using namespace tdl::testing;
using tdl::Array;
using tdl::Bound;

// The sizes into which stages are cut: slices, and blocks of these.
struct Cuts {
  int64_t budget_bytes = kGenericBudgetBytes, slice_bytes = kGenericSliceBytes;
  auto operator<=>(const Cuts&) const = default;
};
constexpr Cuts kWhole, kBlocks{int64_t{1} << 11}, kSlices{kGenericBudgetBytes, 256}, kElements{int64_t{1} << 11, 1};

const std::unique_ptr<Kernels>& generic(const Cuts& cuts) {
  static std::map<Cuts, std::unique_ptr<Kernels>> kernels;
  auto& k = kernels[cuts];
  if (!k) k = make_aten_kernels({false, cuts.budget_bytes, cuts.slice_bytes});
  return k;
}

KernelOp op_of(const Bound& bound, const Cuts& cuts, DType real = DType::kFloat64) {
  return {&bound, bound.name, {}, {}, real, cuts.budget_bytes, false, cuts.slice_bytes};
}

bool has_opaque(const tdl::Expr& e) {
  return e.kind == tdl::ExprKind::kOpaque || std::any_of(e.args.begin(), e.args.end(), has_opaque);
}
bool has_opaque(const Bound& bound) {
  return std::any_of(bound.stages.begin(), bound.stages.end(), [](const tdl::Stage& s) { return has_opaque(s.body); });
}

// Empty: the whole formula is right, in blocks and slices of this size.
std::string check_whole(const Bound& bound, const std::vector<Array>& operands, const Cuts& cuts,
                        DType real = DType::kFloat64, double tolerance = 1e-11, int* sliced = nullptr) {
  ScratchUse use;
  const std::vector<Array> got = run_whole(*generic(cuts), op_of(bound, cuts, real), operands, &use);
  if (sliced) *sliced += use.sliced_calls;
  tdl::Evaluation options;
  options.with_terms = true;
  std::vector<Array> expected = tdl::evaluate(bound, operands, options);
  for (size_t r = 0; r < got.size(); ++r) {
    for (double& value : expected[r].reals) value = rounded_to(real, value);
    if (std::string d = difference(got[r], expected[r], tolerance); !d.empty()) return d;
  }
  return use.above;
}

std::string check_strategies(const Bound& bound, const std::vector<Array>& operands, int workers, const Cuts& cuts,
                             int& count) {
  ScratchUse use;
  const KernelOp op = op_of(bound, cuts);
  for (const tdl::AxisStrategy& s : tdl::strategies(bound, workers)) {
    const auto derived = tdl::derive(bound, {workers}, {s});
    if (!derived) continue;
    ++count;
    const CheckResult result = check(bound, *derived, operands, 7, 1e-11, kernel_runner(*generic(cuts), op, &use));
    if (!result.wrong.empty()) return fmt::format("{} on {}: {}", to_string(s), workers, result.wrong);
  }
  return use.above;
}

TEST(Generic, EveryInstanceWhole) {
  int count = 0, sliced = 0;
  for (const Instance& instance : instances()) {
    const Bound bound = tdl::testing::bind(instance);
    if (has_opaque(bound)) continue;
    const auto operands = tdl::testing::operands(instance, 3);
    for (const Cuts& cuts : {kWhole, kBlocks, kSlices, kElements})
      EXPECT_EQ(check_whole(bound, operands, cuts, DType::kFloat64, 1e-11, &sliced), "")
          << instance.name << ", blocks of " << cuts.budget_bytes << ", slices of " << cuts.slice_bytes;
    EXPECT_EQ(check_whole(bound, operands, kWhole, DType::kFloat32, 1e-5), "") << instance.name << ", float32";
    // Two bytes: whatever the blocks, one rounding a result, and one more if a later stage reads it.
    for (DType low : {DType::kBFloat16, DType::kFloat16}) {
      auto few = operands;
      for (Array& a : few)
        for (double& value : a.reals) value = rounded_to(low, value);
      for (const Cuts& cuts : {kWhole, kBlocks, kElements})
        EXPECT_EQ(check_whole(bound, few, cuts, low, 2 * epsilon_of(low)), "")
            << instance.name << ", " << name_of(low) << ", blocks of " << cuts.budget_bytes << ", slices of "
            << cuts.slice_bytes;
    }
    ++count;
  }
  std::printf("%d calls in slices\n", sliced);
  EXPECT_GT(count, 85);
  EXPECT_GT(sliced, 20);
}

TEST(Generic, EveryStrategyOfEveryInstance) {
  int count = 0;
  for (const Instance& instance : instances()) {
    const Bound bound = tdl::testing::bind(instance);
    if (has_opaque(bound)) continue;
    const auto operands = tdl::testing::operands(instance, 3);
    for (const Cuts& cuts : {kWhole, kElements})
      EXPECT_EQ(check_strategies(bound, operands, 3, cuts, count), "") << instance.name << ", " << cuts.slice_bytes;
  }
  EXPECT_GT(count, 800);
}

TEST(LongGeneric, EveryStrategyOfEveryInstanceOn2And4) {
  int count = 0;
  for (const Instance& instance : instances()) {
    const Bound bound = tdl::testing::bind(instance);
    if (has_opaque(bound)) continue;
    const auto operands = tdl::testing::operands(instance, 3);
    for (int workers : {2, 3, 4})
      for (const Cuts& cuts : {kWhole, kBlocks, kSlices})
        EXPECT_EQ(check_strategies(bound, operands, workers, cuts, count), "") << instance.name;
  }
  EXPECT_GT(count, 3600);
}

TEST(Generic, DerivedGradients) {
  int count = 0;
  for (const Instance& instance : instances()) {
    const Bound bound = tdl::testing::bind(instance);
    if (has_opaque(bound)) continue;
    for (int t = 0; t < bound.operand_count; ++t) {
      std::optional<tdl::Gradient> gradient;
      try {
        gradient = tdl::gradient(bound, t);
      } catch (const std::exception&) {
        continue;  // a declared one is needed
      }
      if (!gradient) continue;
      std::vector<Shape> shapes;
      std::vector<Array> operands;
      const auto forward = tdl::testing::operands(instance, 5);
      for (const std::string& name : gradient->operands) {
        const int q = bound.find_tensor(name);
        if (q >= 0 && q < bound.operand_count) {
          shapes.push_back(bound.tensors[q].shape);
          operands.push_back(forward[q]);
        } else {
          const int r = bound.find_tensor(name.substr(2));
          shapes.push_back(bound.tensors[r >= 0 ? r : bound.results[0]].shape);
          operands.push_back(normal_array(shapes.back(), 11 + operands.size()));
        }
      }
      const Bound g = tdl::bind(gradient->text, shapes);
      for (const Cuts& cuts : {kWhole, kBlocks, kElements})
        EXPECT_EQ(check_whole(g, operands, cuts), "")
            << instance.name << " by " << bound.tensors[t].name << ", blocks of " << cuts.budget_bytes << ", slices of "
            << cuts.slice_bytes << "\n"
            << gradient->text;
      ++count;
    }
  }
  EXPECT_GT(count, 100);
}

TEST(Generic, RandomFormulas) {
  const char* text = std::getenv("PARTITA_SEED");
  const uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 1;
  std::printf("seed %llu (PARTITA_SEED)\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  int bound_count = 0, strategy_count = 0, sliced = 0;
  for (int n = 0; n < 300; ++n) {
    const Formula formula = random_formula(rng);
    std::optional<Bound> bound;
    try {
      bound = tdl::bind(formula.text, formula.shapes);
    } catch (const Error&) {
      continue;
    }
    ++bound_count;
    std::vector<Array> operands;
    for (const Shape& s : formula.shapes) operands.push_back(normal_array(s, rng.next()));
    const Cuts cuts{n % 2 ? 1 << 10 : kGenericBudgetBytes, n % 4 < 2 ? 1 : kGenericSliceBytes};
    EXPECT_EQ(check_whole(*bound, operands, cuts, DType::kFloat64, 1e-11, &sliced), "") << formula.text;
    if (n % 3 != 0) continue;
    EXPECT_EQ(check_strategies(*bound, operands, 2 + n % 2, cuts, strategy_count), "") << formula.text;
  }
  std::printf("%d formulas, %d in slices\n", bound_count, sliced);
  EXPECT_GT(bound_count, 100);
  EXPECT_GT(strategy_count, 100);
}

TEST(Generic, RandomNumbersAreTheEvaluators) {
  const Bound bound = tdl::bind("drop(x)[..i] = if(rng(5, 7, lin(..i)) < 0.5, 2 * x[..i], 0)", {{37, 5}});
  EXPECT_EQ(check_whole(bound, {normal_array({37, 5}, 1)}, {1 << 10}), "");
}

// Sums of float16 and bfloat16 are float32's to their end. These are exact, while adding in two bytes would stand still
// at 2^8 or 2^11.
TEST(Generic, SumsOfTwoBytesAreRoundedOnce) {
  std::vector<double> ones(4096, 1);
  for (DType low : {DType::kBFloat16, DType::kFloat16})
    for (const char* text : {"f(x)[] = sum(k) x[k]", "f(x)[i] where i < 3 = sum(k) if(x[k] == i, x[k], 0)",
                             "f(x, y)[i, j] where i < 2, j < 2 = sum(k) x[k] * y[k]"}) {
      const bool two = std::string(text).find('y') != std::string::npos;
      const Bound bound = two ? tdl::bind(text, {{4096}, {4096}}) : tdl::bind(text, {{4096}});
      std::vector<Array> operands(two ? 2 : 1, tdl::real_array({4096}, ones));
      EXPECT_EQ(check_whole(bound, operands, {1 << 10}, low, 0), "") << text << ", " << name_of(low);
    }
  // An embedding's gradient adds rows where they belong.
  const Bound scatter =
      tdl::bind("f(ids, g)[v, h] where v < 2 = sum(b) if(ids[b] == v, g[b, h], 0)", {{4096}, {4096, 3}});
  EXPECT_EQ(check_whole(scatter,
                        {tdl::int_array({4096}, std::vector<int64_t>(4096, 1)),
                         tdl::real_array({4096, 3}, std::vector<double>(3 * 4096, 1))},
                        {1 << 12}, DType::kBFloat16, 0),
            "");
}

// A sum over slices in float16 or bfloat16 is rounded once too: each slice adds 1 to 256 or 2048 and more.
TEST(Generic, SumsOverSlicesAreRoundedOnce) {
  const Bound bound =
      tdl::bind("f(x) -> y, s =\nz[i, j] = 2 * x[i, j]\ns[j] = sum(i) z[i, j]\ny[i] = sum(j) z[i, j]", {{4096, 3}});
  const std::vector<Array> ones{tdl::real_array({4096, 3}, std::vector<double>(3 * 4096, 1))};
  for (DType low : {DType::kBFloat16, DType::kFloat16}) {
    int sliced = 0;
    EXPECT_EQ(check_whole(bound, ones, kElements, low, 0, &sliced), "") << name_of(low);
    EXPECT_EQ(sliced, 1);
  }
}

// Values that a slice's stages can't have yet: a sum that later stages read in the same slice, a neighbour, another
// slice.
TEST(Generic, StagesThatNeedAllOfATensorAreNotInSlicesOfIt) {
  for (const char* text :
       {"f(x)[i, j] =\nz[i, j] = 2 * x[i, j]\nm[j] = sum(i) z[i, j]\nz[i, j] - m[j]",
        "f(x)[i, j] where k < 7 =\nz[i, j] = 2 * x[i, j]\nm[i] = sum(j) z[i, j]\nw[i, j] = z[i, j] * m[i]\n"
        "sum(k) w[k, j] * w[i, k]",
        "f(x)[i, j] =\nz[i, j] = x[i, j]^2\nz[i - 1, j] * z[i, j - 1]"}) {
    const Bound bound = tdl::bind(text, {{7, 7}});
    EXPECT_EQ(check_whole(bound, {normal_array({7, 7}, 3)}, kElements), "") << text;
  }
}

// Numbers in data that are no positions read nothing.
TEST(Generic, LookupsOutOfRangeReadNothing) {
  const Bound bound = tdl::bind("embedding(ids, t)[b, h] = t[v = ids[b], h]", {{6}, {5, 3}});
  EXPECT_EQ(check_whole(bound, {tdl::int_array({6}, {4, -1, 0, 5, 1000000007, 2}), normal_array({5, 3}, 1)}, kWhole),
            "");
}

TEST(Generic, BlocksBoundTheScratch) {
  const Bound bound = tdl::bind("f(a, b)[i, j] = exp(a[i, j]) * (b[j, i] + 1) - a[i, j]", {{2048, 1024}, {1024, 2048}});
  ScratchUse use;
  const std::vector<Array> operands{normal_array({2048, 1024}, 1), normal_array({1024, 2048}, 2)};
  run_whole(*generic(kWhole), op_of(bound, kWhole), operands, &use);
  EXPECT_EQ(use.above, "");
  EXPECT_LE(use.declared_bytes, kGenericBudgetBytes);
  EXPECT_GE(use.used_bytes * 10, use.declared_bytes * 8);
}

}  // namespace
}  // namespace partita::testing
