// Deliberately wrong rules, for the test that each of them is caught (tests/tdl/mutant_test.cc). MUTANT("name") is
// false except in the library variant built with PARTITA_TDL_MUTANTS, while active_mutant is that name. A name is in
// the test's table, with what the wrong rule is.
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
