// Counts the elements that a fetch into partial values moves, cell by cell of the grid of the boxes' ends.
#include "partita/sharding/count_partial.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "partita/sharding/members.h"

namespace partita::boxing {

namespace {

// ---------------------------------------------------------------- any two meshes of few positions

// Bits are sets of target positions.
struct Segment {  // between two neighbouring ends along one dimension
  int64_t size;
  uint64_t have, want;  // positions whose box, on its own device or as wanted, holds the segment
};

struct Grid {
  int members = 0;
  bool whole_first = false;
  std::vector<uint64_t> from_member, to_member;  // positions whose own device has each member; positions that are each
                                                 // member
  uint64_t have = 0, want = 0;                   // positions whose boxes are not empty
  std::vector<std::vector<Segment>> segments;    // by dimension
};

std::vector<Segment> segments_along(const Layout& from, const Layout& to, const std::vector<int>& local, size_t f) {
  std::vector<int64_t> ends;
  for (size_t t = 0; t < local.size(); ++t) {
    ends.insert(ends.end(), {to.boxes[t][f].lo, to.boxes[t][f].hi});
    if (local[t] >= 0) ends.insert(ends.end(), {from.boxes[local[t]][f].lo, from.boxes[local[t]][f].hi});
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<Segment> segments;
  for (size_t e = 0; e + 1 < ends.size(); ++e) {
    const Interval range{ends[e], ends[e + 1]};
    Segment segment{range.size(), 0, 0};
    for (size_t t = 0; t < local.size(); ++t) {
      const uint64_t bit = uint64_t{1} << t;
      if (to.boxes[t][f].contains(range)) segment.want |= bit;
      if (local[t] >= 0 && from.boxes[local[t]][f].contains(range)) segment.have |= bit;
    }
    segments.push_back(segment);
  }
  return segments;
}

Grid grid_of(const Layout& from, const Layout& to) {
  Grid grid;
  grid.members = partial_member_count(from);
  grid.whole_first = has_partial_values(from) && from.reducer() != to.reducer();
  grid.from_member.assign(grid.members, 0);
  grid.to_member.assign(partial_member_count(to), 0);
  std::vector<int> local;  // by target: the position of `from` on the same device, or -1
  for (int t = 0; t < to.mesh.positions(); ++t) {
    const uint64_t bit = uint64_t{1} << t;
    local.push_back(from.mesh.position_of(to.mesh.devices[t]));
    if (!is_empty(to.boxes[t])) grid.want |= bit;
    grid.to_member[partial_member(to, t)] |= bit;
    if (local[t] < 0) continue;
    grid.from_member[partial_member(from, local[t])] |= bit;
    if (!is_empty(from.boxes[local[t]])) grid.have |= bit;
  }
  for (size_t f = 0; f < to.boxes[0].size(); ++f) grid.segments.push_back(segments_along(from, to, local, f));
  return grid;
}

// Per member of the source: how many elements the target's group member lacks that lacks least.
int64_t moved_per_element(const Grid& grid, uint64_t have, uint64_t want) {
  int64_t sum = 0;
  for (int m = 0; m < grid.members; m += grid.whole_first ? grid.members : 1) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const uint64_t group : grid.to_member) {
      const int64_t all = std::popcount(want & group);
      least = std::min(least, grid.whole_first ? grid.members * all - std::popcount(want & group & have)
                                               : all - std::popcount(want & group & have & grid.from_member[m]));
    }
    sum += least;
  }
  return sum;
}

// Sums over the cells of the dimensions from `axis` on; `volume`: of the segments chosen before.
int64_t moved(const Grid& grid, size_t axis, int64_t volume, uint64_t have, uint64_t want) {
  if (want == 0) return 0;
  if (axis == grid.segments.size()) return moved_per_element(grid, have, want) * volume;
  int64_t sum = 0;
  for (const Segment& s : grid.segments[axis])
    sum += moved(grid, axis + 1, volume * s.size, have & s.have, want & s.want);
  return sum;
}

// ---------------------------------------------------------------- one mesh of any size

// Connected mesh axes and dimensions: boxes along each of the dimensions depend on some of these axes.
struct Group {
  std::vector<int> axes;
  std::vector<size_t> dimensions;
};

// The group of the mesh axis `first`; marks its axes as seen.
Group group_of(const Layout& from, const Layout& to, size_t first, std::vector<bool>& seen) {
  Group group{{static_cast<int>(first)}, {}};
  seen[first] = true;
  std::vector<bool> listed(to.boxes.rank(), false);
  for (size_t i = 0; i < group.axes.size(); ++i)
    for (size_t f = 0; f < listed.size(); ++f) {
      const std::vector<int> axes = joined_axes(to.boxes.along(f).axes, from.boxes.along(f).axes);
      if (listed[f] || std::find(axes.begin(), axes.end(), group.axes[i]) == axes.end()) continue;
      listed[f] = true;
      group.dimensions.push_back(f);
      for (int a : axes)
        if (!seen[a]) seen[a] = true, group.axes.push_back(a);
    }
  std::sort(group.axes.begin(), group.axes.end());
  return group;
}

// The intersections of present and wanted boxes at some positions, and the members these positions are on either side.
struct Cells {
  size_t rank = 0;
  std::vector<Interval> boxes;         // [position][dimension]
  std::vector<size_t> target, source;  // members, by position
};

// Sums, over the source's members, the most positions of one member of the target among `some`.
int64_t most_of(const Cells& cells, const std::vector<size_t>& some) {
  std::vector<std::pair<size_t, size_t>> members;
  for (size_t i : some) members.emplace_back(cells.source[i], cells.target[i]);
  std::sort(members.begin(), members.end());
  int64_t sum = 0, most = 0, same = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    same = i > 0 && members[i] == members[i - 1] ? same + 1 : 1;
    most = std::max(most, same);
    if (i + 1 == members.size() || members[i + 1].first != members[i].first) sum += std::exchange(most, 0);
  }
  return sum;
}

// The sum of most_of() over the elements of all cells of the dimensions from `axis` on: a sweep along each.
int64_t sum_of_most(const Cells& cells, const std::vector<size_t>& some, size_t axis, int64_t volume) {
  if (some.empty()) return 0;
  if (axis == cells.rank) return volume * most_of(cells, some);
  std::vector<std::pair<int64_t, size_t>> begins;
  std::vector<int64_t> ends;
  for (size_t i : some) {
    const Interval& along = cells.boxes[i * cells.rank + axis];
    ends.insert(ends.end(), {along.lo, along.hi});
    begins.emplace_back(along.lo, i);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::sort(begins.begin(), begins.end());
  int64_t sum = 0;
  std::vector<size_t> here;
  auto next = begins.begin();
  for (size_t e = 0; e + 1 < ends.size(); ++e) {
    std::erase_if(here, [&](size_t i) { return cells.boxes[i * cells.rank + axis].hi <= ends[e]; });
    for (; next != begins.end() && next->first == ends[e]; ++next) here.push_back(next->second);
    sum += sum_of_most(cells, here, axis + 1, volume * (ends[e + 1] - ends[e]));
  }
  return sum;
}

std::vector<int> partial_among(const Layout& layout, const std::vector<int>& axes) {
  std::vector<int> partial;
  for (int a : axes)
    if (layout.kinds[a]) partial.push_back(a);
  return partial;
}

// Sums elements over all cells of a group. Each counts as often as positions of one member of the target's groups have
// it, for the member with most. `apart`: each member of the source counts by itself.
int64_t counted_most_there(const Layout& from, const Layout& to, const Group& group, bool apart) {
  const std::vector<int>& extents = to.mesh.extents;
  const size_t rank = group.dimensions.size();
  const std::vector<int> source_axes = apart ? partial_among(from, group.axes) : std::vector<int>();
  const std::vector<size_t> target_of = places_on(extents, group.axes, partial_among(to, group.axes)),
                            source_of = places_on(extents, group.axes, source_axes);
  Cells cells{rank, {}, {}, {}};
  std::vector<Interval> there(rank * target_of.size());  // by position of the group, along each dimension
  for (size_t i = 0; i < rank; ++i)
    for_each_two(extents, group.axes, to.boxes.along(group.dimensions[i]), from.boxes.along(group.dimensions[i]),
                 [&](size_t p, const Interval& x, const Interval& y) { there[p * rank + i] = intersect(x, y); });
  for (size_t p = 0; p < target_of.size(); ++p) {
    const Interval* box = there.data() + p * rank;
    if (std::any_of(box, box + rank, [](const Interval& i) { return i.empty(); })) continue;
    cells.boxes.insert(cells.boxes.end(), box, box + rank);
    cells.target.push_back(target_of[p]);
    cells.source.push_back(source_of[p]);
  }
  std::vector<size_t> all(cells.target.size());
  std::iota(all.begin(), all.end(), 0);
  return sum_of_most(cells, all, 0, 1);
}

int64_t most_there(const Layout& from, const Layout& to, const Group& group, bool apart, CountMemory* memory) {
  if (!memory) return counted_most_there(from, to, group, apart);
  std::string key(1, static_cast<char>(apart));
  auto put = [&](int v) { key.append(reinterpret_cast<const char*>(&v), sizeof v); };
  for (int a : group.axes) put(a << 2 | to.kinds[a].has_value() << 1 | from.kinds[a].has_value());
  for (size_t f : group.dimensions)
    put(memory->volumes.number_of(to.boxes, f)), put(memory->volumes.number_of(from.boxes, f));
  const auto [found, fresh] = memory->most_there.try_emplace(std::move(key));
  if (fresh) found->second = counted_most_there(from, to, group, apart);
  return found->second;
}

}  // namespace

int64_t elements_into_parts(const Layout& from, const Layout& to) {
  const Grid grid = grid_of(from, to);
  return moved(grid, 0, 1, grid.have, grid.want);
}

// Each member of the source moves each element to all positions of one member of the target that want it, less the
// positions that have it. The positions that have it are a product over groups of mesh axes and dimensions. This holds
// because the boxes of a partial group are equal on both sides: boxes do not depend on the coordinates that number
// members.
int64_t elements_into_parts_on_one_mesh(const Layout& from, const Layout& to, CountMemory* memory) {
  const bool whole_first = has_partial_values(from) && from.reducer() != to.reducer();
  const int64_t total = memory ? memory->volumes.of(to.boxes, to.boxes) : total_volume(to.boxes);
  int64_t there = 1;
  std::vector<bool> seen(to.mesh.extents.size(), false);
  for (size_t a = 0; a < seen.size(); ++a)
    if (!seen[a]) there *= most_there(from, to, group_of(from, to, a, seen), !whole_first, memory);
  for (size_t f = 0; f < to.boxes.rank(); ++f)
    if (to.boxes.along(f).axes.empty() && from.boxes.along(f).axes.empty())
      there *= intersect(to.boxes.at(0, f), from.boxes.at(0, f)).size();
  return capped_product(partial_member_count(from), total / partial_member_count(to)) - there;
}

}  // namespace partita::boxing
