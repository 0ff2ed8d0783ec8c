// Tests moves found by values: applied again they give the result; ambiguous ones are not found.
#include "partita/onnx/moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/onnx/constants.h"

namespace partita::onnx_model {
namespace {

Values random_values(const Shape& shape, Rng& rng) {
  Values x{.dtype = DType::kFloat32, .shape = shape, .real = {}, .integer = {}};
  for (int64_t i = 0; i < volume(shape); ++i) x.real.push_back(static_cast<float>(rng.uniform() - 0.5));
  return x;
}

Values evaluated(const std::string& operation, const std::vector<const Values*>& operands,
                 std::map<std::string, Attribute> attributes = {}) {
  Node node;
  node.operation = operation;
  node.attributes = std::move(attributes);
  return evaluate_constant(node, operands);
}

Values list(const std::vector<int64_t>& integers) {
  return {.dtype = DType::kInt64, .shape = {static_cast<int64_t>(integers.size())}, .real = {}, .integer = integers};
}

// By the evaluator of ONNX's operators.
Values applied(const Moves& moves, const Values& from) {
  Values x = from;
  if (moves.flat) {
    const Values flat = list({-1});
    x = evaluated("Reshape", {&x, &flat});
  }
  for (const Moves::Take& take : moves.takes)
    x = evaluated("Gather", {&x, &take.places}, {{"axis", static_cast<int64_t>(take.axis)}});
  if (!moves.perm.empty()) x = evaluated("Transpose", {&x}, {{"perm", moves.perm}});
  const Values shape = list(moves.shape);
  return evaluated("Reshape", {&x, &shape});
}

Values taken(const Values& x, std::size_t axis, const std::vector<int64_t>& places) {
  const Values ids = list(places);
  return evaluated("Gather", {&x, &ids}, {{"axis", static_cast<int64_t>(axis)}});
}

std::vector<int64_t> random_order(std::size_t n, Rng& rng) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

// A few of: rows of an axis, in an order with repeats; all of an axis turned; a transposition; another shape.
Values moved_at_random(const Values& from, Rng& rng) {
  Values x = from;
  const std::size_t axis = rng.below(x.shape.size());
  const uint64_t kind = rng.below(4);
  if (kind == 0) {
    std::vector<int64_t> places(1 + rng.below(9));
    for (int64_t& place : places) place = static_cast<int64_t>(rng.below(static_cast<uint64_t>(x.shape[axis])));
    x = taken(x, axis, places);
  } else if (kind == 1) {
    for (std::size_t a = 0; a < x.shape.size(); ++a) {
      std::vector<int64_t> back(static_cast<std::size_t>(x.shape[a]));
      std::iota(back.rbegin(), back.rend(), 0);
      if (rng.below(2)) x = taken(x, a, back);
    }
  }
  if (rng.below(2)) x = evaluated("Transpose", {&x}, {{"perm", random_order(x.shape.size(), rng)}});
  if (rng.below(3) == 0)
    x.shape.insert(x.shape.begin() + static_cast<std::ptrdiff_t>(rng.below(x.shape.size() + 1)), 1);
  return x;
}

TEST(Moves, AreFoundAndGiveTheResult) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Rng rng(kSeed);
  for (int round = 0; round < 400; ++round) {
    Shape shape;
    for (uint64_t a = 1 + rng.below(4); a > 0; --a) shape.push_back(static_cast<int64_t>(1 + rng.below(6)));
    const Values from = random_values(shape, rng), result = moved_at_random(from, rng);
    const auto moves = find_moves(from, result, rng.below(2));
    if (!moves) {
      EXPECT_TRUE(is_constant_filled(result)) << round;
      continue;
    }
    EXPECT_EQ(applied(*moves, from), result) << round;
  }
}

TEST(Moves, ManyElementsOfWhichSomeAreEqualByChance) {
  Rng rng(12);
  Values from = random_values({64, 48, 3, 3}, rng);
  for (std::size_t i = 0; i < 200; ++i) from.real[rng.below(from.real.size())] = from.real[rng.below(from.real.size())];
  const Values turned = taken(
      taken(evaluated("Transpose", {&from}, {{"perm", std::vector<int64_t>{1, 0, 2, 3}}}), 2, {2, 1, 0}), 3, {2, 1, 0});
  const auto moves = find_moves(from, turned, false);
  ASSERT_TRUE(moves);
  EXPECT_EQ(applied(*moves, from), turned);
  EXPECT_FALSE(moves->flat);
}

TEST(Moves, WhatCouldComeFromSeveralPlacesIsNotFound) {
  Rng rng(13);
  Values from = random_values({6, 4}, rng);
  std::copy_n(from.real.begin(), 4, from.real.begin() + 12);  // row 3 is row 0
  EXPECT_FALSE(find_moves(from, taken(from, 0, {1, 3}), false));
  EXPECT_TRUE(find_moves(from, taken(from, 0, {1, 2}), false));
  const Values ones{.dtype = DType::kFloat32, .shape = {6, 4}, .real = std::vector<double>(24, 1), .integer = {}};
  EXPECT_FALSE(find_moves(ones, taken(ones, 0, {1, 2}), false));
  EXPECT_TRUE(find_moves(ones, ones, false));
  Values other = from;
  other.real[7] += 1;
  EXPECT_FALSE(find_moves(from, other, false));
}

TEST(Moves, OfASymmetricMatrixTheOneAskedFor) {
  Values eye{.dtype = DType::kFloat32, .shape = {3, 3}, .real = {1, 0, 0, 0, 1, 0, 0, 0, 1}, .integer = {}};
  EXPECT_EQ(find_moves(eye, eye, true)->perm, (std::vector<int64_t>{1, 0}));
  EXPECT_TRUE(find_moves(eye, eye, false)->is_copy());
  EXPECT_TRUE(says_nothing(eye));
}

TEST(Moves, RepeatsAreTakenAway) {
  constexpr uint64_t kSeed = 14;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Rng rng(kSeed);
  for (int round = 0; round < 100; ++round) {
    const Values table =
        random_values({static_cast<int64_t>(2 + rng.below(5)), static_cast<int64_t>(4 + rng.below(4))}, rng);
    std::vector<int64_t> places(12);
    for (int64_t& place : places) place = static_cast<int64_t>(rng.below(static_cast<uint64_t>(table.shape[0])));
    Values x = taken(table, 0, places);
    x.shape = {3, 4, table.shape[1]};
    x = evaluated("Transpose", {&x}, {{"perm", random_order(3, rng)}});
    x.shape.insert(x.shape.begin(), 1);
    const Repeated repeated = without_repeats(x);
    std::sort(places.begin(), places.end());
    const int64_t used = std::unique(places.begin(), places.end()) - places.begin();
    EXPECT_EQ(repeated.whole.real.size(), static_cast<std::size_t>(used * table.shape[1])) << round;
    Values again = repeated.moves ? applied(*repeated.moves, repeated.whole) : repeated.whole;
    const Values shape = list(x.shape);
    EXPECT_EQ(evaluated("Expand", {&again, &shape}), x) << round;
  }
}

}  // namespace
}  // namespace partita::onnx_model
