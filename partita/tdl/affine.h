// Computes with quasi-affine index forms: their algebra, interval analysis (6) and consequences of guards (7).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/tdl/tdl.h"

namespace partita::tdl {

int64_t floor_divide(int64_t a, int64_t b);  // rounds towards minus infinity; b > 0

Affine affine_constant(int64_t value);
Affine affine_index(int index);
// Equal atoms are collected, and terms keep one fixed order: two forms are equal exactly if they are written the same.
Affine operator+(const Affine& a, const Affine& b);
Affine operator-(const Affine& a, const Affine& b);
Affine scaled(const Affine& a, int64_t factor);
// divisor > 0. Multiples of the divisor leave the atom: (6 i + j) // 6 = i + j // 6.
Affine floor_div(const Affine& a, int64_t divisor);
Affine modulo(const Affine& a, int64_t divisor);
// a as divisor * whole + rest, where rest has no multiple of the divisor: 6 i + j + 7 is 6 (i + 1) + (j + 1).
struct Multiples {
  Affine whole, rest;
};
Multiples split_multiples(const Affine& a, int64_t divisor);
std::strong_ordering compare(const Affine& a, const Affine& b);
inline bool operator==(const Affine& a, const Affine& b) { return compare(a, b) == 0; }
inline bool operator<(const Affine& a, const Affine& b) { return compare(a, b) < 0; }

// Adds the indices of a that are not in `indices` yet.
void collect_indices(const Affine& a, std::vector<int>& indices);
bool uses_index(const Affine& a, int index);
// The form with `index` replaced.
Affine substituted(const Affine& a, int index, const Affine& replacement);

// The smallest interval that holds all values; exact if each index occurs once. No range may be empty.
Interval range_of(const Affine& a, const std::vector<Interval>& ranges);
// Resolves atoms that these ranges decide: if j < 8, j // 8 is 0 and j % 8 is j.
Affine simplified(const Affine& a, const std::vector<Interval>& ranges);

enum class NotAffine { kNo, kProduct, kDivisor, kOther };  // kNo: it is affine
// Converts an expression over indices and integers to a form; empty, and why, if it is none.
std::optional<Affine> affine_of(const Expr& expr, NotAffine* why = nullptr);
Expr expr_of(const Affine& a);
// Puts index arithmetic of an expression in its normal form, and resolves comparisons of it that the ranges decide.
Expr normalize_index_arithmetic(Expr e, const std::vector<Interval>& ranges);

// Collects forms that are >= 0 wherever the condition (negated: its negation) holds.
void collect_constraints(const Expr& condition, bool negated, std::vector<Affine>& nonnegative);
// Narrows ranges to values for which all forms can be >= 0; false if there are none.
bool narrow_ranges(std::vector<Interval>& ranges, const std::vector<Affine>& nonnegative);

// "2*y + r - 1", with the given names of indices.
std::string to_string(const Affine& a, const std::vector<std::string>& names);

}  // namespace partita::tdl
