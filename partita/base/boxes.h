// Holds a box for each position of a mesh, along each dimension by itself. A position's interval there depends on its
// coordinates on some of the mesh's axes, mostly few, and only differing intervals are kept. So the boxes of 16384
// positions take little memory, and are counted together without visiting each.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <vector>

#include "partita/base/box.h"

namespace partita {

// The intervals along one dimension, row-major over the extents of `axes`: the mesh axes that they depend on,
// ascending.
struct Along {
  std::vector<int> axes;
  std::vector<Interval> intervals;
  bool operator==(const Along&) const = default;
};

// A value; copies share their contents. Positions are row-major over the mesh's extents.
class Boxes {
 public:
  Boxes() = default;
  Boxes(std::vector<int> extents, const std::vector<Box>& boxes);  // one a position
  Boxes(std::initializer_list<Box> boxes);                         // of a mesh of one axis
  Boxes(std::vector<int> extents, std::vector<Along> dimensions);  // axes that make no difference may be among them
  static Boxes everywhere(std::vector<int> extents, const Box& box);

  size_t size() const { return positions_; }
  bool empty() const { return size() == 0; }
  size_t rank() const { return dimensions_.size(); }
  const std::vector<int>& extents() const { return extents_; }
  const Along& along(size_t dimension) const { return *dimensions_[dimension]; }
  Interval at(size_t position, size_t dimension) const;
  Box operator[](size_t position) const;
  std::vector<Box> list() const;
  std::vector<Box> different() const;            // every box, as a rule once: one position if axes make no difference
  bool any_empty() const { return any_empty_; }  // of the boxes
  // The same boxes with this dimension replaced.
  Boxes with(size_t dimension, Along along) const;
  // The same boxes along these dimensions only, in that order.
  Boxes of(const std::vector<size_t>& dimensions) const;
  bool operator==(const Boxes& other) const;
  friend class CommonVolumes;

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Box;
    using difference_type = std::ptrdiff_t;
    using pointer = const Box*;
    using reference = Box;
    Iterator() = default;
    Iterator(const Boxes* boxes, size_t position) : boxes_(boxes), position_(position) {}
    Box operator*() const { return (*boxes_)[position_]; }
    Iterator& operator++() { return ++position_, *this; }
    Iterator operator++(int) { return {boxes_, position_++}; }
    bool operator==(const Iterator&) const = default;

   private:
    const Boxes* boxes_ = nullptr;
    size_t position_ = 0;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

 private:
  void settle();

  bool any_empty_ = false;
  size_t positions_ = 0;
  std::vector<int> extents_;
  std::vector<std::shared_ptr<const Along>> dimensions_;  // axes that make no difference are not among theirs
};

// The number of a position's coordinates on some axes of a mesh, row-major over these; and how many there are.
size_t coordinate_index(const std::vector<int>& extents, const std::vector<int>& axes, size_t position);
size_t count_on(const std::vector<int>& extents, const std::vector<int>& axes);
// For each choice of coordinates on some axes of a mesh, the last fastest: its place among the choices on `of`, a
// subset of the axes.
std::vector<size_t> places_on(const std::vector<int>& extents, const std::vector<int>& axes,
                              const std::vector<int>& of);
// Calls visit(position) for the first position of each choice of coordinates on some axes of a mesh, the last of them
// fastest.
template <typename Visit>
void for_each_coordinate(const std::vector<int>& extents, const std::vector<int>& axes, const Visit& visit) {
  std::vector<size_t> strides(extents.size(), 1), at(axes.size(), 0);
  for (size_t a = extents.size(); a-- > 1;) strides[a - 1] = strides[a] * static_cast<size_t>(extents[a]);
  size_t position = 0;
  for (;;) {
    visit(position);
    size_t i = axes.size();
    while (i > 0) {
      const auto axis = static_cast<size_t>(axes[i - 1]);
      position += strides[axis];
      if (++at[i - 1] < static_cast<size_t>(extents[axis])) break;
      position -= strides[axis] * static_cast<size_t>(extents[axis]);
      at[--i] = 0;
    }
    if (i == 0) return;
  }
}
// Calls visit(place, one of x, one of y) for each choice of coordinates on `axes`, the last fastest. `axes` include
// those of both.
template <typename Visit>
void for_each_two(const std::vector<int>& extents, const std::vector<int>& axes, const Along& x, const Along& y,
                  const Visit& visit) {
  const std::vector<size_t> of_x = places_on(extents, axes, x.axes), of_y = places_on(extents, axes, y.axes);
  for (size_t place = 0; place < of_x.size(); ++place) visit(place, x.intervals[of_x[place]], y.intervals[of_y[place]]);
}
// The union of two ascending lists.
std::vector<int> joined_axes(const std::vector<int>& a, const std::vector<int>& b);

// The smallest box at each position that holds both; an empty one adds nothing. Both are of one mesh and rank.
Boxes hull(const Boxes& a, const Boxes& b);
// Tells whether every position's box of `outer` holds that of `inner`.
bool contains(const Boxes& outer, const Boxes& inner);
// Counts elements of all positions together: of the boxes, and of the intersections of two at each position.
int64_t total_volume(const Boxes& boxes);
int64_t common_volume(const Boxes& a, const Boxes& b);

// common_volume() of many boxes of one mesh, with a memory. Each pair of interval lists along a dimension is computed
// once; so are dimensions that depend on the same mesh axes, together. Not thread-safe.
class CommonVolumes {
 public:
  explicit CommonVolumes(std::vector<int> extents);
  ~CommonVolumes();
  CommonVolumes(CommonVolumes&&) noexcept;
  // The same boxes, with intervals that are quicker to find.
  Boxes known(const Boxes& boxes);
  int64_t of(const Boxes& a, const Boxes& b);
  int number_of(const Boxes& boxes, size_t dimension);  // equal intervals of equal axes share a number

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace partita
