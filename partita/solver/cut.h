// Cuts a network into parts whose least costs add up to a bound of the whole. The cost of an edge between two parts is
// split between its ends, and uses are priced. Parts that become the same network are one part with several copies.
//
// Example: x and y in {0, 1}, each with costs (2, 0), a pair that costs ((0, 3), (3, 0)), and a cut between them. If
// the dual has no message, x takes the pair's least cost with each of its values, (0, 0), then y takes the rest, (0,
// 0). Both parts have costs (2, 0): they are two copies of one part, and prove 0 + 0.
#pragma once
#include <algorithm>
#include <vector>

#include "partita/solver/lift.h"

namespace partita::solver {

// The network to cut: the whole, or a part again.
struct Piece {
  const Network& network;
  std::vector<int> alike;     // [variable]: its class
  std::vector<size_t> edges;  // [edge]: of the whole network
};

struct Part {
  Network network;
  std::vector<size_t> edges;                // [edge]: of the whole network, as the first copy has them
  std::vector<std::vector<int>> variables;  // [copy]: of the piece
};

struct Cut {
  std::vector<Part> parts;     // those with most copies first
  Certificate::Leaf messages;  // on edges across, and multipliers
  Wide besides = 0;            // a certain cost on top of the parts, times the messages' scale
  bool fits = true;            // whether costs stay below kForbidden
};

// Cuts the piece. `part_of`: by variable. Messages and prices are the dual's; between parts that are alike, the ones
// that most have.
Cut cut_into_parts(const Piece& piece, const std::vector<int>& part_of, const LiftedDual& dual);

// Tells whether an edge lies between two parts.
inline bool crosses_parts(const Network::Edge& e, const std::vector<int>& part_of) {
  return std::any_of(e.variables.begin(), e.variables.end(),
                     [&](int v) { return part_of[v] != part_of[e.variables[0]]; });
}

inline Wide rounded_down(Wide sum, int64_t scale) { return sum / scale - (sum % scale < 0 ? 1 : 0); }

}  // namespace partita::solver
