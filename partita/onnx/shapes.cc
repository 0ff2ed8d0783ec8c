// Computes shapes as ONNX's operators define them.
#include <algorithm>
#include <cstdint>

#include "partita/base/error.h"
#include "partita/onnx/constants.h"

namespace partita::onnx_model {

int64_t axis_of(int64_t axis, std::size_t rank) {
  const int64_t n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) fail("axis {} of {} axes", axis, rank);
  return axis < 0 ? axis + n : axis;
}

int64_t place_of(int64_t id, int64_t extent) {
  if (id < -extent || id >= extent) fail("place {} of {}: those from {} to {} are", id, extent, -extent, extent - 1);
  return id < 0 ? id + extent : id;
}

Shape reshaped(const Shape& from, std::vector<int64_t> target, bool allow_zero) {
  int64_t known = 1, open = -1;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 0 && !allow_zero) {
      if (i >= from.size())
        fail("the new shape [{}] copies axis {} of [{}]", fmt::join(target, ", "), i, fmt::join(from, "x"));
      target[i] = from[i];
    }
    if (target[i] == -1 && open < 0) open = static_cast<int64_t>(i);
    else if (target[i] < 0 || __builtin_mul_overflow(known, target[i], &known))
      fail("the new shape [{}] is none", fmt::join(target, ", "));
  }
  if (open >= 0 && known != 0 && volume(from) % known == 0)
    target[static_cast<std::size_t>(open)] = volume(from) / known;
  else if (open >= 0 || known != volume(from))
    fail("[{}] cannot be reshaped to [{}]", fmt::join(from, "x"), fmt::join(target, ", "));
  return target;
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {  // from the last axis
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) fail("[{}] and [{}] do not broadcast", fmt::join(a, "x"), fmt::join(b, "x"));
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

Shape squeezed(const Shape& from, const std::vector<int64_t>& axes) {
  std::vector<bool> drop(from.size());
  for (std::size_t a = 0; a < from.size(); ++a) drop[a] = axes.empty() && from[a] == 1;
  for (int64_t axis : axes) {
    const std::size_t a = static_cast<std::size_t>(axis_of(axis, from.size()));
    if (from[a] != 1) fail("axis {} of [{}] is squeezed, but not of extent 1", axis, fmt::join(from, "x"));
    drop[a] = true;
  }
  Shape result;
  for (std::size_t a = 0; a < from.size(); ++a)
    if (!drop[a]) result.push_back(from[a]);
  return result;
}

Shape unsqueezed(const Shape& from, const std::vector<int64_t>& axes) {
  const std::size_t rank = from.size() + axes.size();
  std::vector<bool> added(rank);
  for (int64_t axis : axes) {
    const std::size_t a = static_cast<std::size_t>(axis_of(axis, rank));
    if (added[a]) fail("axis {} is added twice", axis);
    added[a] = true;
  }
  Shape result;
  auto next = from.begin();
  for (std::size_t a = 0; a < rank; ++a) result.push_back(added[a] ? 1 : *next++);
  return result;
}

SliceRange slice_range(const Shape& from, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
                       std::vector<int64_t> axes, std::vector<int64_t> steps) {
  if (axes.empty())
    for (std::size_t a = 0; a < starts.size(); ++a) axes.push_back(static_cast<int64_t>(a));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    fail("starts, ends, axes and steps differ in length");
  SliceRange range{std::vector<int64_t>(from.size()), from, std::vector<int64_t>(from.size(), 1)};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t a = static_cast<std::size_t>(axis_of(axes[i], from.size()));
    const int64_t extent = from[a], step = steps[i];
    if (step == 0 || step == INT64_MIN) fail("a step of {}", step);
    if (extent == 0) continue;
    auto clamped = [&](int64_t at, int64_t lo, int64_t hi) { return std::clamp(at < 0 ? at + extent : at, lo, hi); };
    const int64_t first = step > 0 ? clamped(starts[i], 0, extent) : clamped(starts[i], 0, extent - 1);
    const int64_t last = step > 0 ? clamped(ends[i], 0, extent) : clamped(ends[i], -1, extent - 1);
    const int64_t distance = step > 0 ? last - first : first - last, stride = std::abs(step);
    range.starts[a] = first;
    range.sizes[a] = distance <= 0 ? 0 : (distance - 1) / stride + 1;
    range.steps[a] = range.sizes[a] <= 1 ? 1 : step;
  }
  return range;
}

}  // namespace partita::onnx_model
