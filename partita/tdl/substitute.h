// Replaces indices in forms and expressions.
#pragma once
#include <map>

#include "partita/tdl/tdl.h"

namespace partita::tdl {

using Substitution = std::map<int, Affine>;  // index -> form

// Replaces all at once: replacements are not looked at again. Indices that are not listed stay.
Affine substituted(const Affine& form, const Substitution& by);
Expr substituted(Expr e, const Substitution& by);
bool mentions_index(const Expr& e, int index);

}  // namespace partita::tdl
