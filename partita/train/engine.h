// Loads the kernels when they are first needed: planning and simulating link no ATen.
#pragma once
#include "partita/runtime/kernel.h"

namespace partita {

// Loads libpartita_engine.so beside the program, in ../lib of its folder, or where the loader finds it. (A program that
// CMake links with an installed Partita knows the place.) Bad input says which file is missing.
Kernels& load_kernels();

}  // namespace partita
