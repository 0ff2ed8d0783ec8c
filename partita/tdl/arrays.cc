// Computes with arrays of the reference evaluator, and pieces of them.
#include "partita/base/error.h"
#include "partita/tdl/evaluate.h"

namespace partita::tdl {

Array real_array(Shape shape, std::vector<double> values) {
  ensure(volume(shape) == static_cast<int64_t>(values.size()), "array of {} has {} elements", shape, values.size());
  return {DType::kFloat64, std::move(shape), std::move(values), {}, {}};
}

Array int_array(Shape shape, std::vector<int64_t> values) {
  ensure(volume(shape) == static_cast<int64_t>(values.size()), "array of {} has {} elements", shape, values.size());
  return {DType::kInt64, std::move(shape), {}, std::move(values), {}};
}

int64_t offset_in(const Box& box, std::span<const int64_t> point) {
  int64_t offset = 0;
  for (size_t a = 0; a < box.size(); ++a) offset = offset * box[a].size() + (point[a] - box[a].lo);
  return offset;
}

void for_each_point(const Box& box, const std::function<void(std::span<const int64_t>)>& f) {
  if (is_empty(box)) return;
  std::vector<int64_t> point;
  for (const Interval& i : box) point.push_back(i.lo);
  while (true) {
    f(point);
    size_t a = box.size();
    while (a > 0 && ++point[a - 1] == box[a - 1].hi) {
      point[a - 1] = box[a - 1].lo;
      --a;
    }
    if (a == 0) return;
  }
}

Piece piece_of(const Array& whole, const Shape& factored, const Box& box) {
  Piece piece{box, {whole.dtype, extents(box), {}, {}, {}}};
  Box full = full_box(factored);
  for_each_point(box, [&](std::span<const int64_t> point) {
    int64_t i = offset_in(full, point);
    if (is_float(whole.dtype)) {
      piece.data.reals.push_back(whole.reals[i]);
      if (!whole.terms.empty()) piece.data.terms.push_back(whole.terms[i]);
    } else {
      piece.data.ints.push_back(whole.ints[i]);
    }
  });
  return piece;
}

}  // namespace partita::tdl
