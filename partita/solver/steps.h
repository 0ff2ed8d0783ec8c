// Solves a network by leaving out, step by step, values that no better solution takes, until variable elimination can
// have the rest: the dual's passes tell what a value costs at least (reduced cost fixing), and dominance goes through
// what that leaves. Each step is written down as a judge can take it again (network/certificate.h), so what elimination
// computes is certified too, which messages alone, or branching with them, do not prove where the relaxation is loose.
#pragma once
#include "partita/solver/model.h"
#include "partita/solver/solver.h"

namespace partita::solver {

// Begins with a solution, and messages. `made`: of some of the network's tables. Result::certificate is the proof of
// Result::bound; without leaves where the steps came to nothing: too little left out for elimination, or the end of the
// time.
Result solve_in_steps(const Network& network, const Assignment& solution, const Certificate::Leaf& messages,
                      const Options& options, const PairTables* made = nullptr);

// Whether it is certified that nothing costs less than its solution, or less by more than the gap.
bool is_closed(const Result& result, double gap);

}  // namespace partita::solver
