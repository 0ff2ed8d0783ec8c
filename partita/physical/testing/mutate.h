// Changes an admitted graph so that it may hang, or overwrite bytes that are still needed, for tests.
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
  bool (*mutate)(PhysicalGraph& graph, Rng& rng);  // false if it does not apply
};
const std::vector<Mutation>& mutations();

// Returns the objection of verify() or admission to a graph; "accepted" if there is none.
std::string verdict(const PhysicalGraph& graph);
// Removes a task with its nodes in the order and its edges. Later tasks move up by one.
void remove_task(PhysicalGraph& graph, TaskId gone);
// Makes the random net of a seed, after all passes.
RandomNet lowered_net(uint64_t seed);

struct MutantCounts {
  int refused = 0, accepted = 0;
  int hang = 0, corrupt = 0;  // of the refused
};
struct MutantRuns {
  std::map<std::string, MutantCounts> tallies;  // by mutation
  std::string wrong;  // the first mutant that was admitted and hung or was corrupt; empty: none
};
// Runs mutants of the nets of seeds [first, last). Each mutation is drawn `draws` times a net, and run under up to
// `schedules` schedules until one goes wrong. Prints the tallies.
MutantRuns run_mutants(uint64_t first, uint64_t last, int draws, int schedules,
                       const std::function<TaggedRun(const PhysicalGraph&, Rng&)>& run);

}  // namespace partita::testing
