// Tests networks: validation, evaluation, and brute force.
#include "partita/network/network.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"

namespace partita::solver {
namespace {

std::shared_ptr<const Table> table(Table t) { return std::make_shared<const Table>(std::move(t)); }

// The example.json of the public format.
Network example() {
  Network n;
  n.costs = {{15}, {55, 65}, {25, 45, 35}, {85, 75}, {95}};
  n.edges = {{{0, 1}, table({30, 40})},
             {{0, 2}, table({50, 10, 40})},
             {{1, 3}, table({90, 10, 20, 80})},
             {{2, 4}, table({60, 20, 30})},
             {{3, 4}, table({70, 60})}};
  n.uses = {{0, 30, 70, {10}},
            {1, 40, 70, {25, 25}},
            {2, 50, 120, {15, 20, 15}},
            {3, 110, 140, {10, 10}},
            {4, 110, 150, {15}}};
  n.limit = 50;
  return n;
}

TEST(Network, Example) {
  Network n = example();
  validate(n);
  const BruteForce best = brute_force(n);
  EXPECT_EQ(best.solution, (Assignment{0, 0, 2, 1, 0}));
  EXPECT_EQ(best.cost, 445);
  EXPECT_EQ(evaluate(n, *best.solution).peak, 50);
  n.limit.reset();
  EXPECT_EQ(brute_force(n).cost, 415);
  n.limit = 49;
  EXPECT_FALSE(brute_force(n).solution);
}

TEST(Network, SumsLeave64Bits) {
  Network n;
  n.costs = {{kForbidden - 1}, {kForbidden - 1}};
  for (int i = 0; i < 20; ++i) n.edges.push_back({{0, 1}, table({kForbidden - 1})});
  const Evaluation e = evaluate(n, {0, 0});
  EXPECT_EQ(to_string(e.cost), "21999999999999999978");
  EXPECT_TRUE(e.feasible);
  n.edges.push_back({{1, 0, 1}, table({kForbidden})});
  EXPECT_FALSE(evaluate(n, {0, 0}).feasible);
}

TEST(Network, IntervalsAreHalfOpen) {
  Network n;
  n.costs = {{0}, {0}, {0}};
  n.uses = {{0, 0, 5, {3}}, {1, 5, 9, {4}}, {2, 7, 7, {100}}, {2, 9, 2, {100}}};
  EXPECT_EQ(evaluate(n, {0, 0, 0}).peak, 4);
}

TEST(Network, WideNumbers) {
  for (const char* text :
       {"0", "-1", "170141183460469231731687303715884105727", "-170141183460469231731687303715884105728"})
    EXPECT_EQ(to_string(*parse_wide(text)), text);
  for (const char* text : {"", "-", "1x", "170141183460469231731687303715884105728"})
    EXPECT_FALSE(parse_wide(text)) << text;
}

TEST(Network, RefusesWrongShapes) {
  Network n = example();
  n.edges[1].table = table({1, 2});
  EXPECT_THROW(validate(n), Error);
  n = example();
  n.uses[0].amounts = {-1};
  EXPECT_THROW(validate(n), Error);
  EXPECT_THROW(evaluate(example(), {0, 0, 3, 0, 0}), Error);
}

}  // namespace
}  // namespace partita::solver
