// Variable elimination (Bertele and Brioschi, Nonserial Dynamic Programming, 1972): the exact optimum of a network
// where the tables that come of it fit. The limit is left aside; an optimum that keeps it is the network's. Where the
// tables are small, a judge can compute it again, given the order (network/certificate.h).
#pragma once
#include <functional>
#include <optional>

#include "partita/network/network.h"

namespace partita::solver {

struct EliminationPlan {
  std::vector<int> order;
  int width = 0;                // most variables that one table is over
  int64_t largest_table = 0;    // entries
  int64_t bytes = 0, work = 0;  // of all tables; table entries that will be looked at
};
// By smallest next table (EliminationGame). Empty if the tables would take more than `bytes`.
std::optional<EliminationPlan> plan_elimination(const Network& network, int64_t bytes);
// The same, where it is quick, and its tables are small enough for a judge.
std::optional<EliminationPlan> plan_to_prove(const Network& network, int64_t bytes);

struct Eliminated {
  std::optional<Assignment> solution;  // empty: everything takes something forbidden
  Wide cost = 0;
};
// Empty if it was stopped, or if sums are too large for 64 bits.
std::optional<Eliminated> eliminate(const Network& network, const EliminationPlan& plan,
                                    const std::function<bool()>& stop = {});

}  // namespace partita::solver
