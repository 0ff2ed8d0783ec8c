// Draws random formulas for fuzz tests: up to three operands and three stages over i, j, k. They have shifted, strided,
// divided and wrapped subscripts, guards, every reducer and the functions that kinds treat differently.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "partita/base/rng.h"
#include "partita/tdl/tdl.h"

namespace partita::tdl::testing {

struct Formula {
  std::string text;
  std::vector<Shape> shapes;
};
// Not all of them bind.
Formula random_formula(Rng& rng);

}  // namespace partita::tdl::testing
