// Parts of check_optimizer (optimizer.h) for the command line, which tells names from values.
#pragma once
#include <string>

#include "partita/graph/optimizer.h"

namespace partita {

// Bad input: an unknown optimizer, schedule or option.
void check_optimizer_names(const Optimizer& optimizer, const OpRegistry& registry);
// Says of what PyTorch takes that it is hardly meant: a momentum of 1 or more. Empty: of nothing.
std::string doubt_of(const Optimizer& optimizer, const OpRegistry& registry);

}  // namespace partita
