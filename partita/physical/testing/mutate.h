// Changes to an admitted graph that may make it hang, or overwrite what is still needed.
#pragma once
#include <vector>

#include "partita/base/rng.h"
#include "partita/physical/physical.h"

namespace partita::testing {

struct Mutation {
  const char* name;
  bool (*mutate)(PhysicalGraph& graph, Rng& rng);  // false where it does not apply
};
const std::vector<Mutation>& mutations();

}  // namespace partita::testing
