// Tests the choice of the best cut when the steps of all cuts are known.
#include "partita/search/pipelines/stage_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "partita/base/rng.h"

namespace partita {
namespace {

// By brute force: every way to cut into stages that are not empty.
std::vector<StageCut> every_cut(int blocks, int stages) {
  std::vector<StageCut> out;
  for (unsigned ends = 0; ends < 1U << (blocks - 1); ++ends) {
    if (__builtin_popcount(ends) != stages - 1) continue;
    StageCut cut(static_cast<size_t>(blocks), 0);
    for (size_t i = 1; i < cut.size(); ++i) cut[i] = cut[i - 1] + static_cast<int>(ends >> (i - 1) & 1);
    out.push_back(cut);
  }
  return out;
}

StageCuts beginning_at(const StageCut& cut) {
  StageCuts cuts;
  cuts.blocks.cuts = static_cast<int>(cut.size());
  cuts.cuts = {cut};
  cuts.need = [](const StageCut&) { return 0.5; };
  return cuts;
}

CutEvaluator by(const std::function<int64_t(const StageCut&)>& step_ns) {
  return {.step_ns = step_ns, .evaluated = [step_ns](const StageCut& cut) {
            return PlanEvaluation{.step_ns = step_ns(cut), .memory_deficit = 0};
          }};
}

// Steps are unrelated, so that no neighbour leads to the shortest.
TEST(ShortestCut, IsThatOfAllCutsWhereTheyAreFew) {
  Rng rng(57);
  for (int trial = 0; trial < 100; ++trial) {
    const int stages = 2 + static_cast<int>(rng.below(3)), blocks = stages + static_cast<int>(rng.below(4));
    const std::vector<StageCut> all = every_cut(blocks, stages);
    std::map<StageCut, int64_t> ns;
    for (const StageCut& cut : all) ns[cut] = static_cast<int64_t>(1000 + rng.below(1000));
    const auto best = std::ranges::min_element(ns, {}, [](const auto& known) { return known.second; });
    const StageCut found = shortest_cut(beginning_at(all[rng.below(all.size())]), {.most = 40, .watch = {}},
                                        by([&](const StageCut& cut) { return ns.at(cut); }));
    EXPECT_EQ(ns.at(found), best->second) << blocks << " in " << stages;
  }
}

// 1140 cuts into four: the second stage has five layer blocks and the first nine, and neither of its ends can move
// alone.
TEST(ShortestCut, IsFoundWhereAStageMovesAsAWhole) {
  StageCut even(20, 0);
  for (size_t i = 0; i < even.size(); ++i) even[i] = static_cast<int>(i) / 5;
  const auto layer_blocks_of = [](const StageCut& cut, int stage) {
    return static_cast<int>(std::count(cut.begin(), cut.end(), stage));
  };
  const StageCut found = shortest_cut(beginning_at(even), {.most = 100, .watch = {}}, by([&](const StageCut& cut) {
                                        return 10'000 + 1000 * std::abs(layer_blocks_of(cut, 1) - 5) +
                                               100 * std::abs(layer_blocks_of(cut, 0) - 9);
                                      }));
  EXPECT_EQ(layer_blocks_of(found, 0), 9);
  EXPECT_EQ(layer_blocks_of(found, 1), 5);
}

}  // namespace
}  // namespace partita
