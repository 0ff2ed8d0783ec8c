// Golden text: what a test prints, compared with a file of the repository.
#pragma once
#include <string>

namespace partita::tdl::testing {

// The first line in which `text` differs from tests/golden/NAME, said so that one can act on it; empty if none does.
// With PARTITA_UPDATE_GOLDEN=1 in the environment the file is written anew instead.
std::string golden_difference(const std::string& name, const std::string& text);

}  // namespace partita::tdl::testing
