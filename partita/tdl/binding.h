// Holds a definition while it is bound, in three phases (docs/inside/TDL.md, section 2): extents, expressions, stages.
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "partita/tdl/syntax.h"

namespace partita::tdl {

// Products of extents with coefficients stay far from overflow.
inline constexpr int64_t kLargestExtent = int64_t{1} << 40;

// A definition with its shapes and attributes, and the formula as far as it is made.
struct Binding {
  const Definition& definition;
  const std::vector<Shape>& shapes;
  const Attributes& attributes;
  Bound bound;
  std::map<std::string, int> ranks;  // of groups

  // Bad input at an offset of the definition's text.
  [[noreturn]] void error(size_t at, const std::string& message) const;
  int operand(const std::string& name) const;  // -1: there is none
  int index(const std::string& name) const;    // as Bound::find_index; -1: not made yet
  // The number of the operand's axes that each group of a read takes, in order; ranks must be fixed if there are
  // several groups.
  std::vector<int> group_widths(const Syntax& access, const Shape& shape) const;

  mutable std::unordered_map<std::string, int> places;  // of the first indices of `bound`, by their names
};

// Makes every index, with its extent, from operands, attributes and `where`.
void fix_extents(Binding& b);

// An expression with its names resolved, literals folded, and reads at indices from data written as sums.
Expr convert_expression(const Binding& b, const Syntax& s);
// The subscripts of a left side.
std::vector<Affine> left_side(const Binding& b, const Syntax& owner, const std::vector<Syntax>& items);

// The names of the groups that an access is read with.
std::vector<std::string> groups_of(const Syntax& access);
bool reads_data(const Syntax& s);
std::string axes_text(size_t n);  // "1 axis", "2 axes"

}  // namespace partita::tdl
