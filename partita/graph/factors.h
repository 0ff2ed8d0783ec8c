// Factored axes carried over the graph (TDL.md rule 4). A fused projection is one matrix product whose result is split
// into q, k and v: only a cut inside each part lets every device have its heads of all three. The product itself knows
// nothing of parts: its index is factored into (part, place) because the axis that it runs along is, at another op.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// Whether an op's indices may be factored. One whose kernel knows its indices by name may not.
using MayFactor = std::function<bool(const Op& op)>;

// Marks each `split` and `concat` of equal parts `together` whose joined axis every op along it can factor: every
// access of it is a plain index of an op that may be factored, or falls into the same parts. Elsewhere, as before a
// convolution, the parts stay cut one by one. Of a forward graph, so that the backward ops follow.
Graph cut_parts_alike(Graph graph, const MayFactor& may);

// Gives every op (Op::factors) the factoring that another op has of an axis along which it runs, parameters' updates
// included: that of parts that are cut together, and any other (a reshape to [3, heads, ..]) of at most kFewParts
// parts. More can be dealt out whole, and S(a) already says so. A factoring that some op along the axis can't take is
// carried nowhere.
Graph carry_factors(Graph graph, const MayFactor& may);
constexpr int64_t kFewParts = 3;

// The factoring of an index of an op's formula by which the first `outer` values of an axis of a tensor (operand or
// stage) are digits apart from what is inside them: of 40 = sequence of 5 x 8 samples, {5, 8}. None: they are so, or
// cannot be, or the op may not.
struct Factoring {
  std::string index;
  Shape radices;
};
std::optional<Factoring> factoring_at(const Graph& graph, const Op& op, int tensor, std::size_t axis, int64_t outer,
                                      const MayFactor& may);

// Per tensor, of each stored axis: the radices that all ops along it have, where they were carried to one of them; else
// its extent alone. A new value has those of the tensor that it replaces.
std::vector<std::vector<Shape>> factored_radices(const Graph& graph);

}  // namespace partita
