// Solves a network of many equal parts by cutting it apart between them, as a model of many layers can be between its
// layers. Each part is solved by itself, equal ones once. Messages of a lifted dual (lift.h, cut.h) split the cost of
// an edge between two parts between its ends. The sum of the parts' least costs is a lower bound of the whole
// (Komodakis, Paragios and Tziritas, MRF optimization via dual decomposition, 2007). It can lie above any bound that
// messages prove for the whole, if the relaxation is loose within a part.
//
// Example: ten layers in a row, joined by edges that cost nothing. Each is a triangle of variables in {0, 1} whose
// pairs cost 1 if their two are equal. Messages prove 0 for the whole. A layer by itself is eliminated, and costs 1:
// the bound is 10, from one part with ten copies.
#pragma once
#include <string>

#include "partita/solver/lift.h"
#include "partita/solver/solver.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

struct SolvedParts {
  std::optional<Wide> bound;           // empty if there is none in time
  size_t different = 0;                // parts
  std::optional<Assignment> together;  // the best mixture of the parts' solutions and the given one, if it is better
  Certificate certificate;             // of the bound, if one is asked for
  std::string words;                   // describes the parts
};

// Finds parts. Returns by variable its part. `alike`: by variable, a class.
//
// The parts grow from the variables of one class, with as many members as most variables' classes have. Each is in a
// part of its own, with the variables nearest to it. The class is chosen so that little lies across two parts.
// Variables that are equally near to all of them are the last part. Empty if nothing is repeated. Empty too if more
// than `most_across` of the table entries would lie across, or one part would have more than `largest` of the
// variables.
std::vector<int> parts_of(const Network& network, const std::vector<int>& alike, double most_across = 1,
                          double largest = 1);

// Solves the parts from the whole's solution and the dual's messages on. Between parts that are alike messages are made
// alike: those that the dual has for most of them. Parts with many copies come first, each within its share of the time
// that is then left; unsolved ones count with their proved bounds. Certified, a bound may be half a percent below its
// part's optimum. A part that is much larger than most is cut apart again (parts_of, with these shares). It is solved
// in one if the bound would otherwise miss the gap that is asked for. `made`: the network's tables, as the dual has
// them.
SolvedParts solve_parts_separately(const Network& network, const std::vector<int>& alike,
                                   const std::vector<int>& part_of, const LiftedDual& dual, const Assignment& solution,
                                   const Options& options, const PairTables& made,
                                   double most_across = kTuning.parts.most_across,
                                   double largest = kTuning.parts.largest);

}  // namespace partita::solver
