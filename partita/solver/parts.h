// A network of many equal parts, cut apart between them, as a model of many layers can be between its layers. Each part
// is solved by itself, those that are alike once; what an edge between two parts costs is split between its ends by
// messages of a lifted dual (lift.h). The sum of the parts' least costs is a lower bound (Komodakis, Paragios and
// Tziritas, MRF optimization via dual decomposition, 2007), and can lie above what any messages prove of the whole,
// where the relaxation is loose within a part.
#pragma once
#include <string>

#include "partita/solver/lift.h"
#include "partita/solver/solver.h"

namespace partita::solver {

struct SolvedApart {
  std::optional<Wide> bound;  // empty where there is none in time
  size_t different = 0;       // parts
  std::optional<Assignment>
      together;             // the best that the parts' solutions and the one that was given make, where that is better
  Certificate certificate;  // of the bound, where one is asked for
  std::string words;        // what the parts are
};

// By variable, its part. `alike`: by variable, a class. Of each class of which there are as many as of most, every
// variable is in a part of its own, with what is nearest to it, so that little lies across two parts; what is near to
// all of them is the last part. Empty where nothing is repeated, more than `most_across` of the table entries would lie
// across, or more than `largest` of the variables in one part.
std::vector<int> parts_of(const Network& network, const std::vector<int>& alike, double most_across = 1,
                          double largest = 1);
inline constexpr double kMostAcross = 0.1, kLargestPart = 0.5;  // where it is worth while

// Between parts that are alike messages are alike too: those that the dual has for most of them. Parts that many are
// alike to come first, each within its share of the time that is then left, from the whole's solution and the dual's
// messages on; of what is not solved by then counts what is proved. Certified, a bound may be half a percent below its
// part's. A part that is much larger than most is cut apart again (parts_of, with these shares); it is solved in one
// where the bound would otherwise not come within the gap that is asked for. `made`: of the network's tables, as the
// dual has them.
SolvedApart solve_apart(const Network& network, const std::vector<int>& alike, const std::vector<int>& part_of,
                        const LiftedDual& dual, const Assignment& solution, const Options& options,
                        const PairTables& made, double most_across = kMostAcross, double largest = kLargestPart);

}  // namespace partita::solver
