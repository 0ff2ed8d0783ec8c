// Draws random operands for the examples of a definition, for tests of formulas, kernels and strategies.
#pragma once
#include <vector>

#include "partita/base/rng.h"
#include "partita/graph/registry.h"
#include "partita/tdl/evaluate.h"

namespace partita {

// The dtypes of an example's operands, one each.
std::vector<DType> operand_dtypes(const OpDefinition::Example& example);

// One array an operand: reals in the definition's domain, int64 below the example's limit, booleans.
std::vector<tdl::Array> random_operands(const OpDefinition& definition, const OpDefinition::Example& example, Rng& rng);

}  // namespace partita
