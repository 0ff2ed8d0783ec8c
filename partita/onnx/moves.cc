// Finds how a tensor's elements were moved, from its values.
#include "partita/onnx/moves.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace partita::onnx_model {

namespace {

constexpr std::size_t kMostAxes = 6;  // of more than one element; 720 orders

using Places = std::vector<int64_t>;

uint64_t mixed(uint64_t x) {  // splitmix64's finalizer
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}
uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }

Places strides_of(const Shape& shape) {
  Places strides(shape.size());
  int64_t place = 1;
  for (std::size_t a = shape.size(); a-- > 0; place *= shape[a]) strides[a] = place;
  return strides;
}

// Offsets of all elements of a view with these extents and strides, in row-major order; stops if `visit` says false.
template <typename Visit>
bool for_each(const Shape& extents, const Places& strides, Visit visit) {
  Places at(extents.size());
  int64_t offset = 0;
  const int64_t count = volume(extents);
  for (int64_t i = 0; i < count; ++i) {
    if (!visit(static_cast<std::size_t>(i), static_cast<std::size_t>(offset))) return false;
    for (std::size_t a = extents.size(); a-- > 0;) {
      offset += strides[a];
      if (++at[a] < extents[a]) break;
      offset -= strides[a] * extents[a];
      at[a] = 0;
    }
  }
  return true;
}

// The axes that have more than one element.
std::vector<std::size_t> long_axes(const Shape& shape) {
  std::vector<std::size_t> axes;
  for (std::size_t a = 0; a < shape.size(); ++a)
    if (shape[a] != 1) axes.push_back(a);
  return axes;
}

template <typename T>
std::vector<T> picked(const std::vector<T>& from, const std::vector<std::size_t>& at) {
  std::vector<T> result;
  for (std::size_t i : at) result.push_back(from[i]);
  return result;
}

// An order of the long axes of `shape` as a perm of all: those of extent 1 come first.
std::vector<int64_t> whole_perm(const Shape& shape, const std::vector<std::size_t>& order) {
  std::vector<int64_t> perm;
  for (std::size_t a = 0; a < shape.size(); ++a)
    if (shape[a] == 1) perm.push_back(static_cast<int64_t>(a));
  for (std::size_t a : order) perm.push_back(static_cast<int64_t>(a));
  return perm;
}

// Every order of the axes, the given one first or last.
template <typename Try>
bool any_order(std::vector<std::size_t> axes, bool own_order_last, Try attempt) {
  const std::vector<std::size_t> own = axes;
  if (!own_order_last && attempt(own)) return true;
  while (std::next_permutation(axes.begin(), axes.end()))
    if (attempt(axes)) return true;
  return own_order_last && attempt(own);
}

// Each slice along an axis as the sum of its elements' hashes: equal in any order of the other axes.
std::vector<uint64_t> slice_hashes(const Values& x, std::size_t axis) {
  const int64_t inner = strides_of(x.shape)[axis], extent = x.shape[axis];
  std::vector<uint64_t> sums(static_cast<std::size_t>(extent));
  for (std::size_t i = 0; i < x.real.size(); ++i)
    sums[static_cast<std::size_t>(static_cast<int64_t>(i) / inner % extent)] += mixed(bits(x.real[i]));
  return sums;
}

// The place of each of `wanted` in `known`; none if one is nowhere, or in several places.
std::optional<Places> places_of(const std::vector<uint64_t>& wanted, const std::vector<uint64_t>& known) {
  std::unordered_map<uint64_t, int64_t> at;
  for (std::size_t i = 0; i < known.size(); ++i)
    if (const auto [found, fresh] = at.emplace(known[i], static_cast<int64_t>(i)); !fresh) found->second = -1;
  Places places;
  for (uint64_t hash : wanted) {
    const auto found = at.find(hash);
    if (found == at.end() || found->second < 0) return std::nullopt;
    places.push_back(found->second);
  }
  return places;
}

bool is_counting(const Places& places) {
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i] != static_cast<int64_t>(i)) return false;
  return true;
}

Values as_places(Places places, Shape shape) {
  return {.dtype = DType::kInt64, .shape = std::move(shape), .integer = std::move(places)};
}

// All elements stay, and along each axis they are in another order: turned or rolled, and transposed.
std::optional<Moves> find_reordered(const Values& from, const Values& result) {
  const std::vector<std::size_t> axes = long_axes(from.shape), to = long_axes(result.shape);
  if (axes.size() != to.size() || axes.size() > kMostAxes) return std::nullopt;
  std::vector<std::vector<uint64_t>> known(from.shape.size()), wanted;
  for (std::size_t a : axes) known[a] = slice_hashes(from, a);
  for (std::size_t a : to) wanted.push_back(slice_hashes(result, a));
  const Places strides = strides_of(from.shape);
  Moves moves{.shape = result.shape};
  const auto fits = [&](const std::vector<std::size_t>& order) {
    std::vector<Places> places;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (from.shape[order[i]] != result.shape[to[i]]) return false;
      auto found = places_of(wanted[i], known[order[i]]);
      if (!found) return false;
      places.push_back(std::move(*found));
    }
    const Shape extents = picked(result.shape, to);
    Places at(extents.size());
    for (std::size_t i = 0; i < result.real.size(); ++i) {
      int64_t offset = 0;
      for (std::size_t a = 0; a < at.size(); ++a)
        offset += places[a][static_cast<std::size_t>(at[a])] * strides[order[a]];
      if (bits(from.real[static_cast<std::size_t>(offset)]) != bits(result.real[i])) return false;
      for (std::size_t a = at.size(); a-- > 0;) {
        if (++at[a] < extents[a]) break;
        at[a] = 0;
      }
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Shape shape{from.shape[order[i]]};
      if (!is_counting(places[i])) moves.takes.push_back({order[i], as_places(std::move(places[i]), shape)});
    }
    if (!std::is_sorted(order.begin(), order.end())) moves.perm = whole_perm(from.shape, order);
    return true;
  };
  return any_order(axes, false, fits) ? std::optional(moves) : std::nullopt;
}

// Rows of the result: `row[i]` is its axis for the i-th axis of a row, `rest` are the axes along which there are rows.
std::vector<uint64_t> row_hashes(const Values& x, const std::vector<std::size_t>& row,
                                 const std::vector<std::size_t>& rest) {
  const Places strides = strides_of(x.shape);
  std::vector<std::size_t> axes = rest;
  axes.insert(axes.end(), row.begin(), row.end());
  const int64_t length = volume(picked(x.shape, row));
  std::vector<uint64_t> hashes;
  uint64_t hash = 0;
  for_each(picked(x.shape, axes), picked(strides, axes), [&](std::size_t i, std::size_t offset) {
    hash = mixed(hash * 31 + bits(x.real[offset]) + 1);
    if ((static_cast<int64_t>(i) + 1) % length == 0) hashes.push_back(hash), hash = 0;
    return true;
  });
  return hashes;
}

// `from` taken along one axis at the places of the result's rows. The result is that, its axes in another order.
std::optional<Moves> taken_rows(const Values& from, const Values& result, std::size_t axis,
                                const std::vector<std::size_t>& others, const std::vector<std::size_t>& row) {
  const std::vector<std::size_t> to = long_axes(result.shape);
  std::vector<std::size_t> rest;
  for (std::size_t a : to)
    if (std::find(row.begin(), row.end(), a) == row.end()) rest.push_back(a);
  auto places = places_of(row_hashes(result, row, rest), row_hashes(from, others, {axis}));
  if (!places) return std::nullopt;
  Moves moves{.shape = result.shape};
  const Shape extents = picked(result.shape, rest);
  // Axes after the take: those of `from` before `axis`, the rows' own, those behind. Each one's axis in the result.
  std::vector<std::size_t> target;
  for (std::size_t a = 0; a < from.shape.size(); ++a) {
    if (a == axis) {
      target.insert(target.end(), rest.begin(), rest.end());
    } else {
      const auto at = std::find(others.begin(), others.end(), a);
      target.push_back(at == others.end() ? SIZE_MAX : row[static_cast<std::size_t>(at - others.begin())]);
    }
  }
  moves.takes.push_back({axis, as_places(std::move(*places), extents)});
  std::vector<std::size_t> order;
  for (std::size_t a = 0; a < target.size(); ++a)
    if (target[a] != SIZE_MAX) order.push_back(a);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return target[a] < target[b]; });
  if (!std::is_sorted(order.begin(), order.end())) {
    for (std::size_t a = 0; a < target.size(); ++a)
      if (target[a] == SIZE_MAX) moves.perm.push_back(static_cast<int64_t>(a));
    for (std::size_t a : order) moves.perm.push_back(static_cast<int64_t>(a));
  }
  return moves;
}

// Rows of `from` along one axis, looked up at places of their own: a slice, a table's lookup, transposed perhaps.
std::optional<Moves> find_rows(const Values& from, const Values& result) {
  const std::vector<std::size_t> axes = long_axes(from.shape), to = long_axes(result.shape);
  if (axes.size() < 2 || axes.size() > kMostAxes || to.size() > kMostAxes) return std::nullopt;
  for (std::size_t axis : axes) {
    std::vector<std::size_t> others, row;
    for (std::size_t a : axes)
      if (a != axis) others.push_back(a);
    std::optional<Moves> moves;
    // Every way to give the row's axes different axes of the result, of their extents.
    const auto assign = [&](const auto& self) -> bool {
      if (row.size() == others.size()) return (moves = taken_rows(from, result, axis, others, row)).has_value();
      for (std::size_t a : to) {
        if (std::find(row.begin(), row.end(), a) != row.end() || result.shape[a] != from.shape[others[row.size()]])
          continue;
        row.push_back(a);
        if (self(self)) return true;
        row.pop_back();
      }
      return false;
    };
    if (assign(assign)) return moves;
  }
  return std::nullopt;
}

// Any elements, each of a value that `from` has once.
std::optional<Moves> find_elements(const Values& from, const Values& result) {
  std::vector<uint64_t> known, wanted;
  for (double value : from.real) known.push_back(bits(value));
  for (double value : result.real) wanted.push_back(bits(value));
  auto places = places_of(wanted, known);
  if (!places) return std::nullopt;
  Moves moves{.flat = true, .shape = result.shape};
  moves.takes.push_back({0, as_places(std::move(*places), result.shape)});
  return moves;
}

}  // namespace

std::vector<uint64_t> hashes_along(const Values& values, std::size_t axis) {
  std::vector<std::size_t> others = long_axes(values.shape);
  std::erase(others, axis);
  return row_hashes(values, others, {axis});
}

uint64_t hash_of_elements(const Values& values) {
  uint64_t sum = 0;
  for (double value : values.real) sum += mixed(bits(value));
  return sum;
}

bool is_constant_filled(const Values& values) {
  return std::all_of(values.real.begin(), values.real.end(), [&](double v) { return bits(v) == bits(values.real[0]); });
}

bool says_nothing(const Values& values) {
  std::vector<uint64_t> found;
  for (double value : values.real) {
    if (std::find(found.begin(), found.end(), bits(value)) == found.end()) found.push_back(bits(value));
    if (found.size() > 2) return false;
  }
  return found.size() < 2 || values.real.size() >= 4;  // two random numbers are two values
}

std::optional<Moves> find_rearranged(const Values& from, const Values& result, bool transposed_first) {
  const std::vector<std::size_t> axes = long_axes(from.shape);
  if (from.real.size() != result.real.size() || axes.size() > kMostAxes) return std::nullopt;
  const Places strides = strides_of(from.shape);
  const Shape extents = picked(result.shape, long_axes(result.shape));
  Moves moves{.shape = result.shape};
  bool same_extents = true;  // orders that also give the result's extents come first: its shape is then no coincidence
  const auto fits = [&](const std::vector<std::size_t>& order) {
    if (same_extents && picked(from.shape, order) != extents) return false;
    if (!for_each(picked(from.shape, order), picked(strides, order),
                  [&](std::size_t i, std::size_t offset) { return bits(from.real[offset]) == bits(result.real[i]); }))
      return false;
    if (!std::is_sorted(order.begin(), order.end())) moves.perm = whole_perm(from.shape, order);
    return true;
  };
  if (any_order(axes, transposed_first, fits)) return moves;
  same_extents = false;
  return any_order(axes, transposed_first, fits) ? std::optional(moves) : std::nullopt;
}

std::optional<Moves> find_moves(const Values& from, const Values& result, bool transposed_first) {
  if (from.real.empty() || result.real.empty()) return std::nullopt;
  if (auto moves = find_rearranged(from, result, transposed_first)) return moves;
  if (is_constant_filled(result)) return std::nullopt;
  if (from.real.size() == result.real.size())
    if (auto moves = find_reordered(from, result)) return moves;
  if (auto moves = find_rows(from, result)) return moves;
  return find_elements(from, result);
}

namespace {

// The axis along which all slices are equal, if there is one of more than one element.
std::optional<std::size_t> repeating_axis(const Values& x) {
  const Places strides = strides_of(x.shape);
  for (std::size_t a : long_axes(x.shape)) {
    bool equal = true;
    for (std::size_t i = 0; i < x.real.size() && equal; ++i) {
      const int64_t at = static_cast<int64_t>(i) / strides[a] % x.shape[a];
      equal = bits(x.real[i]) == bits(x.real[i - static_cast<std::size_t>(at * strides[a])]);
    }
    if (equal) return a;
  }
  return std::nullopt;
}

Values first_slice(const Values& x, std::size_t axis) {
  Shape shape = x.shape;
  shape[axis] = 1;
  Values y{.dtype = x.dtype, .shape = shape};
  for_each(shape, strides_of(x.shape), [&](std::size_t, std::size_t offset) {
    y.real.push_back(x.real[offset]);
    return true;
  });
  return y;
}

// Rows along `row` that are there several times, once: [rows, row..]. Empty if hardly any is.
std::optional<Repeated> different_rows(const Values& x, const std::vector<std::size_t>& row) {
  std::vector<std::size_t> rest;
  for (std::size_t a : long_axes(x.shape))
    if (std::find(row.begin(), row.end(), a) == row.end()) rest.push_back(a);
  const std::vector<uint64_t> hashes = row_hashes(x, row, rest);
  std::unordered_set<uint64_t> known;
  Places first, again;
  for (std::size_t i = 0; i < hashes.size(); ++i)
    (known.insert(hashes[i]).second ? first : again).push_back(static_cast<int64_t>(i));
  const int64_t length = volume(picked(x.shape, row));
  // Numbers alone are equal by chance now and then; rows of several are not.
  const std::size_t kept = length >= 4 ? first.size() : 2 * first.size();
  if (kept >= hashes.size() + (length >= 4 ? 0 : 1)) return std::nullopt;
  const Places strides = strides_of(x.shape);
  Shape shape = picked(x.shape, row);
  Repeated result;
  std::vector<int64_t> starts;
  for_each(picked(x.shape, rest), picked(strides, rest), [&](std::size_t, std::size_t offset) {
    starts.push_back(static_cast<int64_t>(offset));
    return true;
  });
  for (int64_t i : again) {
    const auto start = static_cast<std::size_t>(starts[static_cast<std::size_t>(i)]);
    const auto first_of_row = [&](std::size_t, std::size_t offset) {
      return bits(x.real[start + offset]) == bits(x.real[start]);
    };
    result.unclear = result.unclear || (length > 1 && for_each(shape, picked(strides, row), first_of_row));
  }
  if (result.unclear) return result;
  for (int64_t i : first)
    for_each(shape, picked(strides, row), [&](std::size_t, std::size_t offset) {
      result.whole.real.push_back(x.real[static_cast<std::size_t>(starts[static_cast<std::size_t>(i)]) + offset]);
      return true;
    });
  result.whole.dtype = x.dtype;
  shape.insert(shape.begin(), static_cast<int64_t>(first.size()));
  result.whole.shape = shape;
  std::vector<std::size_t> others(row.size());
  std::iota(others.begin(), others.end(), std::size_t{1});
  result.moves = taken_rows(result.whole, x, 0, others, row);
  return result;
}

}  // namespace

Repeated without_repeats(const Values& result) {
  Values x = result;
  Repeated best;
  while (const auto axis = repeating_axis(x)) {
    x = first_slice(x, *axis);
    best.expanded = true;
  }
  best.whole = x;
  const std::vector<std::size_t> axes = long_axes(x.shape);
  if (axes.size() > kMostAxes) return best;
  bool unclear = false;
  for (std::size_t subset = 1; subset + 1 < std::size_t{1} << axes.size(); ++subset) {
    std::vector<std::size_t> row;
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (subset >> i & 1) row.push_back(axes[i]);
    auto rows = different_rows(x, row);
    unclear = unclear || (rows && rows->unclear);
    if (!rows || !rows->moves || rows->whole.real.size() >= best.whole.real.size()) continue;
    best.whole = std::move(rows->whole), best.moves = std::move(rows->moves);
  }
  best.unclear = unclear && !best.moves && !best.expanded;
  return best;
}

}  // namespace partita::onnx_model
