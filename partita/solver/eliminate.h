// Eliminates variables (Bertele and Brioschi, Nonserial Dynamic Programming, 1972): finds the exact optimum of a
// network if the tables fit. The limit is left aside; an optimum that keeps it is the network's. If the tables are
// small, a checker can compute it again, given the order (network/certificate.h).
#pragma once
#include <functional>
#include <optional>

#include "partita/network/network.h"

namespace partita::solver {

struct EliminationPlan {
  std::vector<int> order;
  int width = 0;                // most variables of one table
  int64_t largest_table = 0;    // entries
  int64_t bytes = 0, work = 0;  // of all tables; table entries that will be read
};
// Plans by smallest next table (EliminationGame). Empty if the tables would take more than `bytes`.
std::optional<EliminationPlan> plan_elimination(const Network& network, int64_t bytes);
// The same, if it is quick and its tables are small enough for a checker.
std::optional<EliminationPlan> plan_to_prove(const Network& network, int64_t bytes);

struct Eliminated {
  std::optional<Assignment> solution;  // empty: every assignment takes something forbidden
  Wide cost = 0;
};
// Eliminates. Empty if it was stopped, or if sums are too large for 64 bits.
std::optional<Eliminated> eliminate(const Network& network, const EliminationPlan& plan,
                                    const std::function<bool()>& stop = {});

}  // namespace partita::solver
