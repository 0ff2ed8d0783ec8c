// Compares a test's output with a golden file of the repository.
#pragma once
#include <string>

namespace partita::tdl::testing {

// Describes the first line in which `text` differs from tests/golden/NAME; empty if none does. With
// PARTITA_UPDATE_GOLDEN=1 in the environment it writes the file anew instead.
std::string golden_difference(const std::string& name, const std::string& text);

}  // namespace partita::tdl::testing
