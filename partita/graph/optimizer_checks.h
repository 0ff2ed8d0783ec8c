// Validates an optimizer in two steps (optimizer.h), for the command line, which treats names and values apart.
#pragma once
#include <string>

#include "partita/graph/optimizer.h"

namespace partita {

// Bad input: an unknown optimizer, schedule or option.
void check_optimizer_names(const Optimizer& optimizer, const OpRegistry& registry);
// Warns of a value that PyTorch takes but that is hardly meant: a momentum of 1 or more. Empty if there is none.
std::string optimizer_warning(const Optimizer& optimizer, const OpRegistry& registry);

}  // namespace partita
