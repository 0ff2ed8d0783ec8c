// Proves a bound, or the optimum, by leaving values out step by step until variable elimination can take the rest.
//
// A step is a sweep and then dominance among the rest. In a sweep the dual's passes bound the cost of each value, and
// too dear values go (reduced cost fixing). Each step is written down, so that a checker can repeat it
// (network/certificate.h). The result of elimination is certified too. Messages alone, or branching with them, do not
// prove it if the relaxation is loose.
//
// Example: three variables of two values, each pair costs 1 if its two are equal. Messages prove 0, but no solution
// costs less than 1: two of the three are equal. With a solution of cost 1 the tables are so small that no sweep is
// needed. Elimination in any order computes 1, and the certificate is one leaf with that order.
#pragma once
#include "partita/solver/model.h"
#include "partita/solver/solver.h"

namespace partita::solver {

// Solves from a solution, and messages. `made`: some of the network's tables, as a model has them. Result::certificate
// is the proof of Result::bound. It has no leaves if the steps brought nothing: too little was left out for
// elimination, or the time was over.
Result solve_in_steps(const Network& network, const Assignment& solution, const Certificate::Leaf& messages,
                      const Options& options, const PairTables* made = nullptr);

// Tells whether it is certified that nothing costs less than the result's solution, or less by more than the gap.
bool is_closed(const Result& result, double gap);

}  // namespace partita::solver
