// Gives every element of a register a weight, for check_shares. Its share tells which terms of its whole value it has.
// (Registers that share bytes are another matter: plan_memory, passes.h.)
//
// A weight is a number modulo 2^61 - 1. A whole value weighs 1, and the reducer's identity 0. The terms of a partial
// value weigh random numbers that add up to 1. A sum over a range of an index weighs as much as a random measure gives
// to that range. x + y weighs a random mean of the two, and x * y their product. Combining adds weights. So a value
// that lacks a term, or counts one twice, weighs 1 only by an accident of probability 2^-61 or so. The numbers are a
// hash: the verdict is the same every time.
//
// Under max and min a term may come twice, and a member may hold a subset of another's terms. There a weight is a set
// of terms, a bit for each of 64 terms. One of them is in every range of an index that is split in 64. Combining joins
// the sets.
//
// Example: c = sum(k) a[k] * b[k], k split in two. gpu0's c weighs u, the measure of [0, 4), and gpu1's 1 - u, that of
// [4, 8). Their all-reduce weighs u + (1 - u) = 1: whole. Had it added gpu0's twice, it would weigh 2u, which is not 1.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "partita/base/box.h"
#include "partita/tdl/tdl.h"

namespace partita::shares {

// ---------------------------------------------------------------- weights

__extension__ using Wide = unsigned __int128;
constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
inline uint64_t add_mod_prime(uint64_t a, uint64_t b) { return (a + b) % kPrime; }
inline uint64_t subtract_mod_prime(uint64_t a, uint64_t b) { return (a + kPrime - b) % kPrime; }
inline uint64_t multiply_mod_prime(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<Wide>(a) * b % kPrime);
}
uint64_t hash_of(std::initializer_list<uint64_t> numbers);  // of a few small numbers

constexpr uint64_t kAllTerms = ~uint64_t{0};
inline bool is_extremal(tdl::Kind k) { return k == tdl::Reducer::kMax || k == tdl::Reducer::kMin; }

struct Share {
  uint64_t weight = 1;  // under max and min the set of terms
  tdl::Kind kind;       // the reducer, if not whole
  bool known = true;    // not if a task without a formula made it
  bool whole() const { return known && !kind; }
  uint64_t terms() const { return kind ? weight : kAllTerms; }  // under max and min
  bool operator==(const Share&) const = default;
};
inline const Share kUnknown{1, std::nullopt, false};

Share share_of(uint64_t weight, tdl::Kind kind);
Share combined(const std::vector<Share>& terms, tdl::Reducer reducer);

// ---------------------------------------------------------------- shares of boxes

struct Patch {
  Box box;
  Share share;
};
using Patches = std::vector<Patch>;  // disjoint

bool is_uniform(const Patches& patches);  // all have one share
// Joins patches that make one box. Rows of one weight become one, however many, also if each row has several weights.
Patches joined(Patches patches);
Patches clipped(const Patches& patches, const Box& box);
// Combines for every element of `target` the terms that have it. `first`: takes it from the first of them.
Patches combined(const Box& target, const std::vector<Patches>& terms, tdl::Reducer reducer, bool first = false);
// The same elements over other axes of the same tensor. Row by row they are the same numbers.
Patches over_axes(const Patches& patches, const Shape& from, const Shape& to);

}  // namespace partita::shares
