// Computes with boxes of all positions of a mesh, held along each dimension by itself.
#include "partita/base/boxes.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>

#include "partita/base/error.h"

namespace partita {

namespace {

size_t positions_of(const std::vector<int>& extents) {
  size_t n = 1;
  for (int e : extents) n *= static_cast<size_t>(e);
  return n;
}

// Makes one dimension from a position's interval: one for each choice of coordinates on `axes`.
template <typename IntervalAt>
Along along_on(const std::vector<int>& extents, std::vector<int> axes, const IntervalAt& interval_at) {
  Along along{std::move(axes), {}};
  for_each_coordinate(extents, along.axes, [&](size_t position) { along.intervals.push_back(interval_at(position)); });
  return along;
}

// Drops the axes that make no difference.
Along reduced(Along along, const std::vector<int>& extents) {
  for (size_t i = along.axes.size(); i-- > 0;) {
    size_t inner = 1;
    for (size_t k = i + 1; k < along.axes.size(); ++k) inner *= static_cast<size_t>(extents[along.axes[k]]);
    const auto extent = static_cast<size_t>(extents[along.axes[i]]);
    const std::vector<Interval>& all = along.intervals;
    bool differs = false;
    for (size_t at = 0; at < all.size() && !differs; ++at)
      if (at / inner % extent != 0) differs = all[at] != all[at - inner];
    if (differs) continue;
    std::vector<Interval> kept;
    for (size_t at = 0; at < all.size(); ++at)
      if (at / inner % extent == 0) kept.push_back(all[at]);
    along.intervals = std::move(kept);
    along.axes.erase(along.axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return along;
}

std::vector<int> all_axes(const std::vector<int>& extents) {
  std::vector<int> axes(extents.size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

std::vector<int> axes_of(const Boxes& boxes) {
  std::vector<int> axes;
  for (size_t f = 0; f < boxes.rank(); ++f) axes = joined_axes(axes, boxes.along(f).axes);
  return axes;
}

// Tells whether every box is empty along the same dimension.
bool nowhere(const Boxes& boxes) {
  for (size_t f = 0; f < boxes.rank(); ++f)
    if (boxes.along(f).axes.empty() && boxes.along(f).intervals[0].empty()) return true;
  return false;
}

// Sizes along one dimension, row-major over the extents of some axes, to be multiplied and summed up.
struct Factor {
  std::vector<int> axes;
  std::vector<int64_t> sizes;
};

// Sums over an axis that this factor alone depends on.
void sum_over(Factor& factor, size_t which, const std::vector<int>& extents) {
  size_t inner = 1;
  for (size_t k = which + 1; k < factor.axes.size(); ++k) inner *= static_cast<size_t>(extents[factor.axes[k]]);
  const auto extent = static_cast<size_t>(extents[factor.axes[which]]);
  std::vector<int64_t> sums(factor.sizes.size() / extent, 0);
  const int64_t* from = factor.sizes.data();
  for (int64_t *to = sums.data(), *end = to + sums.size(); to != end; to += inner)
    for (size_t e = 0; e < extent; ++e, from += inner)
      for (size_t i = 0; i < inner; ++i) to[i] += from[i];
  factor.sizes = std::move(sums);
  factor.axes.erase(factor.axes.begin() + static_cast<std::ptrdiff_t>(which));
}

Factor product(const Factor& a, const Factor& b, const std::vector<int>& extents) {
  Factor out{joined_axes(a.axes, b.axes), {}};
  out.sizes.reserve(count_on(extents, out.axes));
  std::vector<size_t> strides_a, strides_b, counts;  // by axis of the product
  auto strides_in = [&](const Factor& f, std::vector<size_t>& strides) {
    for (int axis : out.axes) {
      size_t stride = 1, found = 0;
      for (size_t k = f.axes.size(); k-- > 0;) {
        if (f.axes[k] == axis) found = stride;
        stride *= static_cast<size_t>(extents[f.axes[k]]);
      }
      strides.push_back(found);
    }
  };
  strides_in(a, strides_a);
  strides_in(b, strides_b);
  for (int axis : out.axes) counts.push_back(static_cast<size_t>(extents[axis]));
  std::vector<size_t> at(counts.size(), 0);
  size_t in_a = 0, in_b = 0;
  for (;;) {
    out.sizes.push_back(a.sizes[in_a] * b.sizes[in_b]);
    size_t i = counts.size();
    while (i > 0) {
      in_a += strides_a[i - 1], in_b += strides_b[i - 1];
      if (++at[i - 1] < counts[i - 1]) break;
      in_a -= strides_a[i - 1] * counts[i - 1], in_b -= strides_b[i - 1] * counts[i - 1];
      at[--i] = 0;
    }
    if (i == 0) return out;
  }
}

// The sum over all positions of the product of all factors, axis after axis: factors that do not depend on an axis
// stand outside its sum.
int64_t sum_of_products(std::vector<Factor> factors, const std::vector<int>& extents) {
  int64_t scale = 1;
  std::vector<size_t> users(extents.size(), 0);
  for (const Factor& f : factors)
    for (int axis : f.axes) ++users[axis];
  for (size_t axis = 0; axis < extents.size(); ++axis)
    if (users[axis] == 0) scale *= extents[axis];
  auto drop_own = [&](Factor& f) {
    for (size_t i = f.axes.size(); i-- > 0;)
      if (users[f.axes[i]] == 1) users[f.axes[i]] = 0, sum_over(f, i, extents);
  };
  for (Factor& f : factors) drop_own(f);
  for (;;) {
    for (size_t i = factors.size(); i-- > 0;)
      if (factors[i].axes.empty())
        scale *= factors[i].sizes[0], factors.erase(factors.begin() + static_cast<std::ptrdiff_t>(i));
    if (factors.empty() || scale == 0) return scale;
    const int axis = factors[0].axes[0];  // at least two depend on it
    Factor joined = std::move(factors[0]);
    factors.erase(factors.begin());
    for (size_t i = 0; i < factors.size();) {
      if (std::find(factors[i].axes.begin(), factors[i].axes.end(), axis) == factors[i].axes.end()) {
        ++i;
        continue;
      }
      for (int shared : factors[i].axes)
        if (std::find(joined.axes.begin(), joined.axes.end(), shared) != joined.axes.end()) --users[shared];
      joined = product(joined, factors[i], extents);
      factors.erase(factors.begin() + static_cast<std::ptrdiff_t>(i));
    }
    drop_own(joined);
    factors.push_back(std::move(joined));
  }
}

// The intersections of two along one dimension.
Factor common_factor(const Along& x, const Along& y, const std::vector<int>& extents) {
  Factor factor{joined_axes(x.axes, y.axes), {}};
  factor.sizes.reserve(count_on(extents, factor.axes));
  if (x.axes == y.axes) {
    for (size_t i = 0; i < x.intervals.size(); ++i)
      factor.sizes.push_back(intersect(x.intervals[i], y.intervals[i]).size());
    return factor;
  }
  for_each_two(extents, factor.axes, x, y,
               [&](size_t, const Interval& i, const Interval& j) { factor.sizes.push_back(intersect(i, j).size()); });
  return factor;
}

}  // namespace

size_t count_on(const std::vector<int>& extents, const std::vector<int>& axes) {
  size_t n = 1;
  for (int a : axes) n *= static_cast<size_t>(extents[a]);
  return n;
}

size_t coordinate_index(const std::vector<int>& extents, const std::vector<int>& axes, size_t position) {
  size_t index = 0, scale = 1, i = axes.size();
  for (size_t a = extents.size(); a-- > 0 && i > 0;) {
    const auto extent = static_cast<size_t>(extents[a]);
    if (axes[i - 1] == static_cast<int>(a)) index += position % extent * scale, scale *= extent, --i;
    position /= extent;
  }
  return index;
}

std::vector<size_t> places_on(const std::vector<int>& extents, const std::vector<int>& axes,
                              const std::vector<int>& of) {
  std::vector<size_t> places = {0};
  for (int axis : axes) {
    const bool counts = std::binary_search(of.begin(), of.end(), axis);
    const auto extent = static_cast<size_t>(extents[axis]);
    std::vector<size_t> next;
    next.reserve(places.size() * extent);
    for (size_t place : places)
      for (size_t e = 0; e < extent; ++e) next.push_back(counts ? place * extent + e : place);
    places = std::move(next);
  }
  return places;
}

std::vector<int> joined_axes(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

Boxes::Boxes(std::vector<int> extents, const std::vector<Box>& boxes)
    : positions_(boxes.size()), extents_(std::move(extents)) {
  ensure(positions_of(extents_) == boxes.size(), "{} boxes for {} positions", boxes.size(), positions_of(extents_));
  const size_t rank = boxes.empty() ? 0 : boxes[0].size();
  for (size_t f = 0; f < rank; ++f)
    dimensions_.push_back(std::make_shared<const Along>(
        reduced(along_on(extents_, all_axes(extents_), [&](size_t p) { return boxes[p][f]; }), extents_)));
  settle();
}

Boxes::Boxes(std::initializer_list<Box> boxes) : Boxes({static_cast<int>(boxes.size())}, std::vector<Box>(boxes)) {}

Boxes::Boxes(std::vector<int> extents, std::vector<Along> dimensions)
    : positions_(positions_of(extents)), extents_(std::move(extents)) {
  for (Along& along : dimensions)
    dimensions_.push_back(std::make_shared<const Along>(reduced(std::move(along), extents_)));
  settle();
}

Boxes Boxes::everywhere(std::vector<int> extents, const Box& box) {
  std::vector<Along> dimensions;
  for (const Interval& i : box) dimensions.push_back({{}, {i}});
  return Boxes(std::move(extents), std::move(dimensions));
}

void Boxes::settle() {
  any_empty_ = false;
  for (const auto& along : dimensions_) any_empty_ = any_empty_ || is_empty(along->intervals);
}

Interval Boxes::at(size_t position, size_t dimension) const {
  const Along& along = *dimensions_[dimension];
  return along.axes.empty() ? along.intervals[0] : along.intervals[coordinate_index(extents_, along.axes, position)];
}

Box Boxes::operator[](size_t position) const {
  Box box(dimensions_.size());
  for (size_t f = 0; f < box.size(); ++f) box[f] = at(position, f);
  return box;
}

std::vector<Box> Boxes::different() const {
  std::vector<Box> out;
  if (!empty())
    for_each_coordinate(extents_, axes_of(*this), [&](size_t position) { out.push_back((*this)[position]); });
  return out;
}

std::vector<Box> Boxes::list() const { return {begin(), end()}; }

Boxes Boxes::with(size_t dimension, Along along) const {
  Boxes out = *this;
  out.dimensions_[dimension] = std::make_shared<const Along>(reduced(std::move(along), extents_));
  out.settle();
  return out;
}

Boxes Boxes::of(const std::vector<size_t>& dimensions) const {
  Boxes out = *this;
  out.dimensions_.clear();
  for (size_t f : dimensions) out.dimensions_.push_back(dimensions_[f]);
  out.settle();
  return out;
}

bool Boxes::operator==(const Boxes& other) const {
  if (size() != other.size() || rank() != other.rank()) return false;
  if (extents_ != other.extents_) return std::equal(begin(), end(), other.begin());
  for (size_t f = 0; f < rank(); ++f)
    if (dimensions_[f] != other.dimensions_[f] && along(f) != other.along(f)) return false;
  return true;
}

Boxes hull(const Boxes& a, const Boxes& b) {
  if (nowhere(a)) return b;
  if (nowhere(b)) return a;
  std::vector<Along> dimensions;
  if (a.any_empty() || b.any_empty()) {  // a box that is empty along one dimension adds nothing along all
    const std::vector<int> axes = joined_axes(axes_of(a), axes_of(b));
    dimensions.assign(a.rank(), {axes, {}});
    for_each_coordinate(a.extents(), axes, [&](size_t position) {
      const Box box = hull(a[position], b[position]);
      for (size_t f = 0; f < box.size(); ++f) dimensions[f].intervals.push_back(box[f]);
    });
  } else {
    for (size_t f = 0; f < a.rank(); ++f)
      dimensions.push_back(along_on(a.extents(), joined_axes(a.along(f).axes, b.along(f).axes),
                                    [&](size_t p) { return hull(a.at(p, f), b.at(p, f)); }));
  }
  return Boxes(a.extents(), std::move(dimensions));
}

bool contains(const Boxes& outer, const Boxes& inner) {
  const std::vector<int>& extents = outer.extents();
  bool all = true;
  if (!inner.any_empty()) {
    for (size_t f = 0; f < outer.rank() && all; ++f) {
      const Along &o = outer.along(f), &i = inner.along(f);
      for_each_two(extents, joined_axes(o.axes, i.axes), o, i,
                   [&](size_t, const Interval& holder, const Interval& held) { all = all && holder.contains(held); });
    }
    return all;
  }
  const std::vector<int> axes = joined_axes(axes_of(outer), axes_of(inner));
  std::vector<char> outside(count_on(extents, axes), 0), empty = outside;  // by position: along any dimension
  for (size_t f = 0; f < outer.rank(); ++f)
    for_each_two(extents, axes, outer.along(f), inner.along(f),
                 [&](size_t p, const Interval& holder, const Interval& held) {
                   outside[p] |= !holder.contains(held);
                   empty[p] |= held.empty();
                 });
  for (size_t p = 0; p < outside.size(); ++p) all = all && (!outside[p] || empty[p]);
  return all;
}

int64_t total_volume(const Boxes& boxes) {
  std::vector<Factor> factors;
  for (size_t f = 0; f < boxes.rank(); ++f) {
    const Along& along = boxes.along(f);
    factors.push_back({along.axes, {}});
    for (const Interval& i : along.intervals) factors.back().sizes.push_back(i.size());
  }
  return sum_of_products(std::move(factors), boxes.extents());
}

int64_t common_volume(const Boxes& a, const Boxes& b) {
  const std::vector<int>& extents = a.extents();
  ensure(extents == b.extents() && a.rank() == b.rank(), "boxes of meshes {} and {} in common", fmt::join(extents, "x"),
         fmt::join(b.extents(), "x"));
  std::vector<Factor> factors;
  for (size_t f = 0; f < a.rank(); ++f) factors.push_back(common_factor(a.along(f), b.along(f), extents));
  return sum_of_products(std::move(factors), extents);
}

struct CommonVolumes::Memory {
  struct Pair {
    uint64_t axes = 0;  // bits
    Factor factor;
    int64_t sum = 0;  // over its axes
    int number = 0;
  };

  int number_of(const std::shared_ptr<const Along>& along) {
    if (const auto found = by_place.find(along.get()); found != by_place.end()) return found->second;
    size_t hash = along->intervals.size();
    for (const Interval& i : along->intervals)
      hash = (((hash ^ static_cast<size_t>(i.lo)) * 0x9E3779B97F4A7C15u) ^ static_cast<size_t>(i.hi)) *
             0x9E3779B97F4A7C15u;
    for (const int number : by_hash[hash])
      if (*alongs[static_cast<size_t>(number)] == *along) return number;
    const int number = static_cast<int>(alongs.size());
    by_hash[hash].push_back(number);
    by_place.emplace(along.get(), number);
    alongs.push_back(along);
    return number;
  }

  const Pair& pair(int a, int b) {
    const auto [found, fresh] =
        pairs.try_emplace(static_cast<uint64_t>(std::min(a, b)) << 32 | static_cast<uint64_t>(std::max(a, b)));
    Pair& pair = found->second;
    if (!fresh) return pair;
    pair.number = static_cast<int>(pairs.size());
    pair.factor = common_factor(*alongs[static_cast<size_t>(a)], *alongs[static_cast<size_t>(b)], extents);
    for (int axis : pair.factor.axes) pair.axes |= uint64_t{1} << axis;
    for (int64_t size : pair.factor.sizes) pair.sum += size;
    return pair;
  }

  // The sum over the axes of these pairs, which are connected.
  int64_t together(std::vector<const Pair*> some, uint64_t axes) {
    std::sort(some.begin(), some.end(), [](const Pair* a, const Pair* b) { return a->number < b->number; });
    std::string key;
    for (const Pair* p : some) key.append(reinterpret_cast<const char*>(&p->number), sizeof p->number);
    const auto [found, fresh] = sums.try_emplace(std::move(key));
    if (!fresh) return found->second;
    std::vector<Factor> factors;
    for (const Pair* p : some) factors.push_back(p->factor);
    std::vector<int> own = extents;
    for (size_t a = 0; a < own.size(); ++a)
      if (!(axes >> a & 1)) own[a] = 1;
    return found->second = sum_of_products(std::move(factors), own);
  }

  std::vector<int> extents;
  std::vector<std::shared_ptr<const Along>> alongs;  // by number
  std::unordered_map<const Along*, int> by_place;
  std::unordered_map<size_t, std::vector<int>> by_hash;
  std::unordered_map<uint64_t, Pair> pairs;       // by two numbers
  std::unordered_map<std::string, int64_t> sums;  // by pairs' numbers
};

CommonVolumes::CommonVolumes(std::vector<int> extents) : memory_(std::make_unique<Memory>()) {
  ensure(extents.size() <= 64, "a mesh of {} axes", extents.size());
  memory_->extents = std::move(extents);
}
CommonVolumes::~CommonVolumes() = default;
CommonVolumes::CommonVolumes(CommonVolumes&&) noexcept = default;

Boxes CommonVolumes::known(const Boxes& boxes) {
  Boxes out = boxes;
  for (auto& along : out.dimensions_) along = memory_->alongs[static_cast<size_t>(memory_->number_of(along))];
  return out;
}

int CommonVolumes::number_of(const Boxes& boxes, size_t dimension) {
  return memory_->number_of(boxes.dimensions_[dimension]);
}

int64_t CommonVolumes::of(const Boxes& a, const Boxes& b) {
  Memory& m = *memory_;
  ensure(a.extents() == m.extents && b.extents() == m.extents && a.rank() == b.rank(),
         "boxes of meshes {} and {} in common", fmt::join(a.extents(), "x"), fmt::join(b.extents(), "x"));
  std::vector<const Memory::Pair*> rest;
  int64_t product = 1;
  uint64_t used = 0;
  for (size_t f = 0; f < a.rank(); ++f) {
    const Memory::Pair& pair = m.pair(m.number_of(a.dimensions_[f]), m.number_of(b.dimensions_[f]));
    used |= pair.axes;
    if (pair.axes == 0) product *= pair.sum;
    else rest.push_back(&pair);
  }
  for (size_t axis = 0; axis < m.extents.size(); ++axis)
    if (!(used >> axis & 1)) product *= m.extents[axis];
  std::vector<const Memory::Pair*> some;
  while (!rest.empty() && product != 0) {
    some = {rest.back()};
    rest.pop_back();
    uint64_t axes = some[0]->axes;
    for (size_t i = 0; i < rest.size();) {
      if (!(rest[i]->axes & axes)) {
        ++i;
        continue;
      }
      axes |= rest[i]->axes;
      some.push_back(rest[i]);
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      i = 0;  // earlier ones may be connected with this one
    }
    product *= some.size() == 1 ? some[0]->sum : m.together(some, axes);
  }
  return product;
}

}  // namespace partita
