// Provides deliberately wrong rules, for the test that each of them is caught (tests/tdl/mutant_test.cc).
// MUTANT("name") is false except in the library variant built with PARTITA_TDL_MUTANTS, while active_mutant is that
// name. The test's table lists each name with its wrong rule.
#pragma once

#ifdef PARTITA_TDL_MUTANTS
#include <string_view>
namespace partita::tdl {
inline std::string_view active_mutant;
}
#define MUTANT(name) (::partita::tdl::active_mutant == (name))
#else
#define MUTANT(name) false
#endif
