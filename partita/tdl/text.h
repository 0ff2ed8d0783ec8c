// Prints bound formulas as TDL text.
#pragma once
#include <string>
#include <vector>

#include "partita/tdl/tdl.h"

namespace partita::tdl {

struct Names {
  std::vector<std::string> indices, tensors;
};
// The formula's own names; other ones for names that would not parse (an index b.0 beside an operand b).
Names printable_names(const Bound& bound);

// A literal as TDL writes it: "inf", "(-2.5)".
std::string number_text(double value);
std::string subscripts_text(const std::vector<Affine>& subscripts, const std::vector<bool>& whole, const Names& names);
// Joins subscripts over factored axes to the one subscript of each stored axis.
std::vector<Affine> join_subscripts(const std::vector<Affine>& digits, const std::vector<Shape>& radices);

}  // namespace partita::tdl
