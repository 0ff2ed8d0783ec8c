// Carries factored axes over the graph (TDL.md rule 4). Example: a fused projection is one matrix product whose result
// is split into q, k and v. Only a cut inside each of the three gives every device its heads of all three. The product
// itself knows nothing of q, k and v: its index is factored into (part, place) because the axis along it is, at another
// op.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// Tells whether an op's indices may be factored. They may not if its kernel knows its indices by name.
using MayFactor = std::function<bool(const Op& op)>;

// Marks each `split` and `concat` of equal parts `together` if every op along the joined axis can factor it. Every
// access of the axis must be a plain index of an op that may be factored, or fall into the same parts. Elsewhere, as
// before a convolution, the parts stay cut one by one. Takes a forward graph, so that the backward ops follow.
Graph cut_parts_alike(Graph graph, const MayFactor& may);

// Gives every op (Op::factors) the factoring that another op has of an axis along it, parameters' updates included. It
// carries factorings of parts that are cut together, and others (a reshape to [3, heads, ..]) of at most kFewParts
// parts. More parts can be dealt out whole, and S(a) already says so. A factoring that some op along the axis cannot
// take is carried nowhere.
Graph carry_factors(Graph graph, const MayFactor& may);
constexpr int64_t kFewParts = 3;

// Factors an index of an op's formula so that the first `outer` values of a tensor's axis (operand or stage) are digits
// of their own. Example: {5, 8} for 40 = sequence of 5 x 8 samples. None if they already are, cannot be, or the op may
// not be factored.
struct Factoring {
  std::string index;
  Shape radices;
};
std::optional<Factoring> factoring_at(const Graph& graph, const Op& op, int tensor, std::size_t axis, int64_t outer,
                                      const MayFactor& may);

// Per tensor and stored axis: the radices that all ops along it have if they were carried to one of them; else its
// extent alone. A new value has those of the tensor that it replaces.
std::vector<std::vector<Shape>> factored_radices(const Graph& graph);

}  // namespace partita
