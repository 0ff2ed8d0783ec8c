// Changes to an admitted graph that may make it hang, or overwrite what is still needed.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "partita/base/rng.h"
#include "partita/physical/physical.h"
#include "partita/physical/testing/random_net.h"
#include "partita/physical/testing/tagged_run.h"

namespace partita::testing {

struct Mutation {
  const char* name;
  bool (*mutate)(PhysicalGraph& graph, Rng& rng);  // false where it does not apply
};
const std::vector<Mutation>& mutations();

// What verify() or admission have against a graph; "accepted" if nothing.
std::string verdict(const PhysicalGraph& graph);
// With its nodes in the order and its edges; later tasks move up by one.
void remove_task(PhysicalGraph& graph, TaskId gone);
// The random net of a seed, after all passes.
RandomNet lowered_net(uint64_t seed);

struct Tally {
  int refused = 0, accepted = 0;
  int hang = 0, corrupt = 0;  // of the refused
};
struct MutantRuns {
  std::map<std::string, Tally> tallies;  // by mutation
  std::string wrong;                     // the first mutant that was admitted and hung or was corrupt; empty: none
};
// Mutants of the nets of seeds [first, last), each mutation drawn so often a net, run under so many schedules until one
// goes wrong. Prints the tallies.
MutantRuns run_mutants(uint64_t first, uint64_t last, int draws, int schedules,
                       const std::function<TaggedRun(const PhysicalGraph&, Rng&)>& run);

}  // namespace partita::testing
