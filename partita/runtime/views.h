// Works on boxes of tensors in memory: sees them over other axes, copies, combines and fills them.
#pragma once
#include <optional>
#include <vector>

#include "partita/runtime/kernel.h"

namespace partita {

// Returns the same memory over other axes: `axes` joins or splits the view's axes (a factored axis, TDL.md rule 4).
// Empty if that needs strides that one axis can't have, or elements that are not one box over them.
std::optional<View> regroup(const View& view, const Shape& axes);
// The part of a view in `box`, which lies in the view's.
View part_of(View view, const Box& box);

// Copies element by element: to.box must lie in from.box, over the same axes. Both are of one dtype, or one is float32
// and the other float16 or bfloat16; so in combine_box.
void copy_box(const View& from, const View& to);
// Copies `from`'s elements of the boxes `missing` of `to`. Returns the boxes that are then still missing.
std::vector<Box> copy_missing(const std::vector<Box>& missing, const View& from, const View& to);
// to := to (reducer) from on from.box and to.box's common part.
void combine_box(tdl::Reducer reducer, const View& from, const View& to);
void fill_view(const View& to, double value);
// The worst number in floating views.
enum class Finiteness { kFinite, kInfinite, kNan };  // the worst number there
Finiteness finiteness_of(const View& view);

}  // namespace partita
