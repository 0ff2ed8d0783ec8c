// Declares types that the array formats (npz.h, safetensors.h) share.
#pragma once
#include <map>
#include <string>

#include "partita/graph/stored_values.h"

namespace partita {

// Arrays by name.
using Arrays = std::map<std::string, Values>;

}  // namespace partita
