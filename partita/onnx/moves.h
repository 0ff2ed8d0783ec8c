// Finds by values how one tensor of a file comes from another by moving elements alone, to restore parameters. A file
// holds an exporter's computations as values only: a table of positions looked up at constant places, a weight
// transposed, turned or cut.
#pragma once
#include <optional>
#include <vector>

#include "partita/graph/graph.h"

namespace partita::onnx_model {

// result = reshape(transpose(take(from))); `flat`: takes are from all elements of `from` in a row.
struct Moves {
  struct Take {
    std::size_t axis = 0;
    Values places;  // int64: Gather's ids
  };
  bool flat = false;
  std::vector<Take> takes;                                        // one after another
  std::vector<int64_t> perm;                                      // empty: no transposition
  Shape shape;                                                    // the result's
  bool is_copy() const { return takes.empty() && perm.empty(); }  // all elements in their order
};

// Compares elements bit for bit. None: `result` has elements that `from` lacks, or they could come from several places
// of it, so that nobody can say which one is meant. If all elements stay, `transposed_first` prefers a transposition to
// a mere copy, which a symmetric matrix may both be.
std::optional<Moves> find_moves(const Values& from, const Values& result, bool transposed_first);

// Finds only moves that keep every element: a copy, or a transposition, in another shape perhaps.
std::optional<Moves> find_rearranged(const Values& from, const Values& result, bool transposed_first);

// Tells whether there are so few different values that equality does not tell their origin: one, or two as in the
// identity matrix.
bool says_nothing(const Values& values);
bool is_constant_filled(const Values& values);

// Does not depend on the elements' order.
uint64_t hash_of_elements(const Values& values);
// Returns for each slice along an axis the hash of its elements in order; axes of extent 1 make no difference.
std::vector<uint64_t> hashes_along(const Values& values, std::size_t axis);

// A tensor from which `result` comes by repeating: along whole axes, and rows that are equal bit for bit. `whole` has
// the distinct rest, and result = reshape(transpose(take(whole))) expanded to the result's shape.
struct Repeated {
  Values whole;
  std::optional<Moves> moves;  // none: whole itself
  bool unclear = false;        // rows filled with one number are there several times: they may be one row, or several
  bool expanded = false;       // whole, after the moves, has extent 1 along axes of the result
};
Repeated without_repeats(const Values& result);

}  // namespace partita::onnx_model
