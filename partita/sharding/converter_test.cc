// Tests that conversions with a memory equal those without one, and conversions inside an op.
#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>

#include "partita/base/rng.h"
#include "partita/sharding/boxing.h"
#include "partita/sharding/testing/layouts.h"

namespace partita {

namespace {

using testing::machine;
using testing::mesh_of;
using testing::random_layout;
using testing::steps_text;

}  // namespace

TEST(Converter, RemembersTheSameAnswers) {
  Converter converter(machine());
  Rng rng(9);
  for (int round = 0; round < 300; ++round) {
    std::vector<Shape> radices = {{rng.between(1, 3)}, {rng.between(1, 3)}};
    Mesh mesh = mesh_of({2, 2});
    Layout from = random_layout(mesh, radices, tdl::Reducer::kSum, rng),
           to = random_layout(mesh, radices, tdl::Reducer::kSum, rng);
    Conversion plain = convert(from, to, 4, machine());
    const Conversion& kept = converter.convert(from, to, 4);
    EXPECT_EQ(kept.bytes, plain.bytes);
    EXPECT_EQ(kept.from, from);
    EXPECT_EQ(kept.to, to);
    EXPECT_EQ(converter.bytes(from, to, 8), 2 * plain.bytes);
    EXPECT_EQ(converter.bytes(from, to, 1) * 4, plain.bytes);
  }
}

// Splits along two mesh axes of one tensor axis, halos and partial values included; on axes of 16 and 18 all cuts may
// be even.
TEST(Converter, TablesAndWaysAreThoseOfEachConversion) {
  constexpr uint64_t kSeed = 21;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  Converter converter(machine());
  const std::vector<std::pair<std::vector<int>, std::vector<Shape>>> cases = {
      {{2, 2, 2}, {{16}, {5}}}, {{2, 2, 2}, {{16}, {2, 8}}}, {{2, 2, 2}, {{3}, {32}}}, {{2, 2}, {{8}, {4}}},
      {{3, 2}, {{18}, {4}}},    {{3, 2}, {{12}, {6}}},       {{4}, {{8}, {7}}},        {{2, 2, 1, 2}, {{16}, {5}}}};
  for (const auto& [extents, radices] : cases)
    for (int round = 0; round < 4; ++round) {
      std::vector<Layout> layouts;
      while (layouts.size() < 6) {
        Layout drawn =
            random_layout(mesh_of(extents), radices, layouts.size() % 2 ? tdl::Reducer::kSum : tdl::Reducer::kMax, rng);
        if (round < 2 || name_of(drawn)) layouts.push_back(std::move(drawn));
      }
      for (NdSbp sbp : {NdSbp(extents.size(), Sbp::split(0)), NdSbp(extents.size(), Sbp::broadcast()),
                        NdSbp(extents.size(), Sbp::partial())}) {
        sbp.back() = round % 2 ? Sbp::split(1) : sbp.back();
        layouts.push_back(make_layout(mesh_of(extents), sbp, radices));
      }
      std::vector<int> all(layouts.size());
      std::iota(all.begin(), all.end(), 0);
      const std::vector<int64_t> table = converter.table(layouts, all, all, 4);
      for (size_t f = 0; f < layouts.size(); ++f)
        for (size_t t = 0; t < layouts.size(); ++t) {
          const Conversion plain = convert(layouts[f], layouts[t], 4, machine());
          EXPECT_EQ(table[f * layouts.size() + t], plain.bytes)
              << to_string(layouts[f]) << " -> " << to_string(layouts[t]);
          const std::vector<int> through =
              converter.through(converter.number(layouts[f]), converter.number(layouts[t]));
          ASSERT_EQ(through.size(), plain.steps.empty() ? 0 : plain.steps.size() + 1)
              << to_string(layouts[f]) << " -> " << to_string(layouts[t]);
          for (size_t s = 0; s < plain.steps.size(); ++s) {
            const Step &step = plain.steps[s], again = converter.step(through[s], through[s + 1], 4);
            EXPECT_EQ(again.from, step.from);
            EXPECT_EQ(again.to, step.to);
            EXPECT_EQ(again.kind, step.kind);
            EXPECT_EQ(again.bytes, step.bytes);
          }
        }
    }
}

// A softmax split on its inner index makes the maximum and the sum each whole: one all-reduce of a row vector.
TEST(InnerConversions, SoftmaxSplitInsideMakesTwoStagesWhole) {
  tdl::Bound bound = tdl::bind(
      "softmax(x)[b, j] =\n  m[b] = max(j) x[b, j]\n  e[b, j] = exp(x[b, j] - m[b])\n  s[b] = sum(j) e[b, j]\n  e[b, "
      "j] / s[b]\n",
      {{6, 9}});
  auto derived = tdl::derive(bound, {3}, {tdl::parse_strategy("j")});
  ASSERT_TRUE(derived);
  Converter converter(machine());
  std::vector<Conversion> inner = inner_conversions(bound, *derived, mesh_of({3}), 4, converter);
  ASSERT_EQ(inner.size(), 2u);
  for (const Conversion& c : inner) {
    EXPECT_EQ(steps_text(c), "all-reduce");
    EXPECT_EQ(c.bytes, 4 * 2 * 2 * 6);
  }
  EXPECT_EQ(inner[0].from.reducer(), tdl::Reducer::kMax);
  EXPECT_EQ(inner[1].from.reducer(), tdl::Reducer::kSum);
  EXPECT_EQ(inner_bytes(bound, *derived, mesh_of({3}), 4, machine()), 2 * 4 * 2 * 2 * 6);
  // With the rows split on another axis, each group does so for its rows.
  auto both = tdl::derive(bound, {2, 3}, {tdl::parse_strategy("b"), tdl::parse_strategy("j")});
  ASSERT_TRUE(both);
  EXPECT_EQ(inner_bytes(bound, *both, mesh_of({2, 3}), 4, machine()), 2 * 4 * 2 * 2 * 6);
}

// A stage is read beyond what its owner has: an inner halo.
TEST(InnerConversions, AnInnerHaloFetchesWhatIsMissing) {
  tdl::Bound bound = tdl::bind("blur(x)[i] =\n  a[i] = x[i] * x[i]\n  a[i - 1] + a[i + 1]\n", {{12}});
  auto derived = tdl::derive(bound, {3}, {tdl::parse_strategy("i")});
  ASSERT_TRUE(derived);
  EXPECT_EQ(inner_bytes(bound, *derived, mesh_of({3}), 4, machine()), 4 * 4);  // four neighbours' elements
}

}  // namespace partita
