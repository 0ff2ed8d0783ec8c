// Narrows a formula to the first values of one index.
#include "partita/tdl/tdl.h"

namespace partita::tdl {

namespace {

// Marks axes of `tensor` that are accessed at this index.
void mark_axes(const std::vector<Affine>& subscripts, int index, std::vector<bool>& axes) {
  for (std::size_t a = 0; a < subscripts.size() && a < axes.size(); ++a)
    if (subscripts[a].plain_index() == index) axes[a] = true;
}

void shorten(BoundTensor& tensor, const std::vector<bool>& axes, int64_t extent) {
  std::size_t at = 0;
  for (std::size_t axis = 0; axis < tensor.radices.size(); ++axis) {
    for (int64_t& radix : tensor.radices[axis]) {
      if (axes[at]) radix = tensor.factored[at] = extent;
      ++at;
    }
    tensor.shape[axis] = volume(tensor.radices[axis]);
  }
}

}  // namespace

Bound narrowed(const Bound& bound, int index, int64_t extent) {
  Bound part = bound;
  part.indices[static_cast<std::size_t>(index)].extent = extent;
  std::vector<std::vector<bool>> axes;
  for (const BoundTensor& tensor : bound.tensors) axes.emplace_back(tensor.factored.size(), false);
  for (const Stage& stage : bound.stages) {
    mark_axes(stage.lhs, index, axes[static_cast<std::size_t>(stage.tensor)]);
    for_each_read(stage.body, [&](const Expr& read) {
      mark_axes(read.subscripts, index, axes[static_cast<std::size_t>(read.tensor)]);
    });
  }
  for (std::size_t t = 0; t < part.tensors.size(); ++t) shorten(part.tensors[t], axes[t], extent);
  return part;
}

}  // namespace partita::tdl
