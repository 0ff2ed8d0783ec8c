// Chooses the axes of each tensor's registers: a factoring of the stored axes over which every layout of the tensor is
// made of boxes. A copy between two of its registers is then a copy of one box.
//
// Example: rows of 12x64 are split as S(0.0) by one op and whole in another. The axes are {12, 64}, the common
// refinement. 24 rows in three shards, and each half of 12 in three, have no such factoring. The tensor is then mixed:
// each layout's registers have the layout's own axes. Copies between them go piece by piece, each a box over both.
#pragma once
#include <optional>
#include <vector>

#include "partita/plan/resolve.h"

namespace partita {

struct RegisterAxes {
  std::vector<std::vector<Shape>> radices;  // by TensorId; empty for a mixed tensor
  std::vector<bool> mixed;                  // by TensorId
};
RegisterAxes register_axes(const Graph& graph, const Resolved& resolved);

// Returns for each stored axis the common refinement of the layouts' factorings, or else the axis itself. None if
// neither serves: mixed.
std::optional<std::vector<Shape>> common_axes(const Shape& shape, const std::vector<const Layout*>& layouts);

// Returns a layout of the tensor over its registers' axes.
Layout over_register_axes(const RegisterAxes& axes, const Layout& layout, TensorId tensor);
// The same over any axes. The layout must be made of boxes over them.
Layout layout_over(const Layout& layout, const std::vector<Shape>& radices);

}  // namespace partita
