// The worked example of candidates.h, and which candidate is the best that fits.
#include "partita/search/all/candidates.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

const Graph kGraph;
const Cluster kCluster;
const Problem kProblem{kGraph, kCluster};

Candidate candidate(const char* from, int64_t bytes, std::optional<int64_t> deficit, int rank = 0) {
  return {from, {}, rank, {}, {.comm_bytes = bytes, .memory_deficit = deficit}};
}

TEST(Candidates, AreInTheOrderOfTheirCost) {
  Candidates all{kProblem};
  all.evaluated = {candidate("soybean", 4'000'000, -1), candidate("owt", 3'000'000, 10),
                   candidate("tofu", 5'000'000, std::nullopt)};
  all.best = 0;
  EXPECT_EQ(by_cost(all), (std::vector<size_t>{1, 0, 2}));
  EXPECT_EQ(best_that_fits(all, {}), 0);
  EXPECT_FALSE(all.evaluated[2].evaluation.memory_deficit);
}

TEST(Candidates, OfEqualCostHaveTheLowerRankFirst) {
  Candidates all{kProblem};
  all.evaluated = {candidate("exact", 7, 0, kLastRank), candidate("zero", 7, 0, 2), candidate("owt", 7, 0, 1)};
  EXPECT_EQ(by_cost(all), (std::vector<size_t>{2, 1, 0}));
}

// If no candidate is known to fit, the cheapest is taken whose memory was not asked for and suffices.
TEST(Candidates, AreAskedForTheirMemoryIfNoneIsKnownToFit) {
  Candidates all{kProblem, true};
  all.evaluated = {candidate("soybean", 4, 1), candidate("zero", 6, std::nullopt), candidate("tofu", 5, std::nullopt)};
  EXPECT_EQ(best_that_fits(all, {}), 2);
  all.evaluated = {candidate("soybean", 4, 1), candidate("owt", 3, 10)};
  EXPECT_EQ(best_that_fits(all, {}), std::nullopt);
}

// A plan of the last rank that came too late for its evaluation is taken if there is no other.
TEST(Candidates, ThatWereNotEvaluatedAreTakenIfThereIsNoOther) {
  Candidates all{kProblem, true};
  EXPECT_EQ(best_that_fits(all, {}), std::nullopt);
  all.not_evaluated = {candidate("data-parallel", 0, std::nullopt), candidate("exact", 0, 0, kLastRank)};
  EXPECT_EQ(best_that_fits(all, {}), 0);
  EXPECT_EQ(all.evaluated[0].from, "exact");
}

}  // namespace
}  // namespace partita
