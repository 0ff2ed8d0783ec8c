#include "partita/sharding/boxing.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/base/tuples.h"

namespace partita {

namespace {

constexpr int64_t kUnreachable = std::numeric_limits<int64_t>::max();
constexpr int64_t kMost =
    int64_t{1} << 60;  // where a count would be more, it is this: no path that is taken moves as much

int64_t times(int64_t a, int64_t b) { return a != 0 && b > kMost / a ? kMost : a * b; }

int64_t overlap(const Box& a, const Box& b) {
  int64_t n = 1;
  for (size_t i = 0; i < a.size(); ++i) n *= intersect(a[i], b[i]).size();
  return n;
}

// Partial over more than one position: an axis of extent 1 has the whole value.
bool in_parts(const Layout& l) {
  for (size_t a = 0; a < l.kinds.size(); ++a)
    if (l.kinds[a] && l.mesh.extents[a] > 1) return true;
  return false;
}

int member_count(const Layout& l) {
  int n = 1;
  for (size_t a = 0; a < l.kinds.size(); ++a)
    if (l.kinds[a]) n *= l.mesh.extents[a];
  return n;
}

// Which part of its partial values a position holds: its coordinate on the partial axes, row-major.
int member_of(const Layout& l, int position) {
  int member = 0, stride = l.mesh.positions();
  for (size_t a = 0; a < l.kinds.size(); ++a) {
    stride /= l.mesh.extents[a];
    if (l.kinds[a]) member = member * l.mesh.extents[a] + position / stride % l.mesh.extents[a];
  }
  return member;
}

// An order of boxes.
bool before(const Box& a, const Box& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const Interval& x, const Interval& y) {
    return std::tie(x.lo, x.hi) < std::tie(y.lo, y.hi);
  });
}

// Bits: the mesh axes on which values are partial.
uint64_t partial_axes(const Layout& l) {
  uint64_t axes = 0;
  for (size_t a = 0; a < l.kinds.size(); ++a) axes |= static_cast<uint64_t>(l.kinds[a].has_value()) << a;
  return axes;
}

bool idempotent(tdl::Reducer r) { return r == tdl::Reducer::kMax || r == tdl::Reducer::kMin; }

// ---------------------------------------------------------------- the fetch

std::vector<Shape> step_radices(const Layout& from, const Layout& to) {
  if (from.radices == to.radices) return from.radices;
  if (auto common = common_radices(from.radices, to.radices)) return *common;
  return unfactored(from.shape());
}

// What each position holds, as boxes over `radices` (from step_radices).
std::vector<std::vector<Box>> contents(const Layout& l, const std::vector<Shape>& radices) {
  std::vector<std::vector<Box>> all;
  bool refines = true;
  for (size_t axis = 0; axis < radices.size(); ++axis)
    refines = refines && radices_within(l.radices[axis], radices[axis]);
  for (const Box& box : l.boxes) {
    if (is_empty(box)) all.push_back({});
    else if (l.radices == radices) all.push_back({box});
    else all.push_back(refines ? refined_boxes(box, l.radices, radices) : stored_boxes(box, l.radices));
  }
  return all;
}

// The parts of `frags` outside `box`; those inside go to `inside`.
std::vector<Box> split_by(const std::vector<Box>& frags, const Box& box, std::vector<Box>& inside) {
  std::vector<Box> rest;
  for (const Box& f : frags) {
    Box meet = intersect(f, box);
    if (is_empty(meet)) {
      rest.push_back(f);
      continue;
    }
    inside.push_back(std::move(meet));
    for (Box& b : subtract(f, box)) rest.push_back(std::move(b));
  }
  return rest;
}

struct Fetcher {
  const Layout& from;
  const Layout& to;
  const Cluster& cluster;
  std::vector<Shape> radices;
  std::vector<std::vector<Box>> have, want;  // by position
  int members;
  std::vector<int> local;  // by target: the position of `from` on the same device, or -1
  // Per member: the different boxes of `from`, and who holds each.
  struct Held {
    Box box;
    std::vector<int> positions;
  };
  std::vector<std::vector<Held>> held;
  // Per member: `held` by where the boxes begin along the axis on which most begin apart, and how long the longest is
  // there.
  struct Beginnings {
    size_t axis = 0;
    std::vector<std::pair<int64_t, size_t>> sorted;
    int64_t longest = 0;
  };
  std::vector<Beginnings> beginnings;
  static constexpr size_t kMany =
      64;  // boxes that may meet one: where these are disjoint they need not be cut by each other
  std::vector<std::optional<bool>> disjoint;  // by member, when asked for
  std::vector<char> listed;                   // by target
  std::vector<Piece> pieces;                  // of those
  int64_t moved = 0;                          // elements, by these

  Fetcher(const Layout& f, const Layout& t, const Cluster& c, const Listed& devices = nullptr)
      : from(f),
        to(t),
        cluster(c),
        radices(step_radices(f, t)),
        have(contents(f, radices)),
        want(contents(t, radices)),
        members(member_count(f)),
        held(members) {
    for (DeviceId d : to.mesh.devices) listed.push_back(!devices || (*devices)[d.index()]);
    const bool same_devices = from.mesh.devices == to.mesh.devices;
    for (int t = 0; t < to.mesh.positions(); ++t)
      local.push_back(same_devices ? t : from.mesh.position_of(to.mesh.devices[t]));
    std::vector<std::map<Box, size_t, decltype(&before)>> places(members,
                                                                 std::map<Box, size_t, decltype(&before)>(&before));
    for (int p = 0; p < from.mesh.positions(); ++p)
      for (const Box& box : have[p]) {
        const int member = member_of(from, p);
        const auto [place, fresh] = places[member].try_emplace(box, held[member].size());
        if (fresh) held[member].push_back({box, {}});
        held[member][place->second].positions.push_back(p);
      }
    for (const std::vector<Held>& list : held) beginnings.push_back(beginnings_of(list));
    if (in_parts(to)) to_partial();
    else to_whole();
    std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.target < b.target; });
  }

  static Beginnings beginnings_of(const std::vector<Held>& list) {
    Beginnings best;
    for (size_t axis = 0; !list.empty() && axis < list[0].box.size(); ++axis) {
      Beginnings b{axis, {}, 0};
      std::set<int64_t> distinct;
      for (size_t i = 0; i < list.size(); ++i) {
        const Interval& along = list[i].box[axis];
        b.sorted.emplace_back(along.lo, i);
        b.longest = std::max(b.longest, along.size());
        distinct.insert(along.lo);
      }
      if (best.sorted.empty() || distinct.size() > distinct_in(best)) {
        std::sort(b.sorted.begin(), b.sorted.end());
        best = std::move(b);
      }
    }
    return best;
  }
  static size_t distinct_in(const Beginnings& b) {
    size_t n = 0;
    for (size_t i = 0; i < b.sorted.size(); ++i) n += i == 0 || b.sorted[i].first != b.sorted[i - 1].first;
    return n;
  }

  // Places in held[member], ascending, of all that meet the box, and of some that do not.
  std::vector<size_t> held_near(const Box& box, int member) const {
    std::vector<size_t> near;
    const Beginnings& b = beginnings[member];
    if (b.sorted.empty()) {
      near.resize(held[member].size());
      std::iota(near.begin(), near.end(), 0);
      return near;
    }
    const Interval& along = box[b.axis];
    for (auto it = std::lower_bound(b.sorted.begin(), b.sorted.end(), std::pair(along.lo - b.longest + 1, size_t{0}));
         it != b.sorted.end() && it->first < along.hi; ++it)
      near.push_back(it->second);
    std::sort(near.begin(), near.end());
    return near;
  }

  // Whether no two different boxes of a member meet.
  bool are_disjoint(int member) {
    if (disjoint.empty()) disjoint.resize(held.size());
    std::optional<bool>& known = disjoint[member];
    if (known) return *known;
    known = true;
    for (size_t i = 0; i < held[member].size() && *known; ++i)
      for (size_t near : held_near(held[member][i].box, member))
        known = *known && (near == i || overlap(held[member][i].box, held[member][near].box) == 0);
    return *known;
  }

  void emit(int source, int target, Box box) {
    if (source != local[target]) moved += volume(box);
    pieces.push_back({source, target, std::move(box)});
  }

  // Of the positions in `holders` the one with the fastest route to the target.
  int fastest(const std::vector<int>& holders, int target) const {
    DeviceId reader = to.mesh.devices[target];
    std::vector<int> tied;
    double bandwidth = -1, latency = 0;
    for (int h : holders) {
      DeviceId device = from.mesh.devices[h];
      double b = cluster.bandwidth(device, reader), l = cluster.latency_us(device, reader);
      if (b > bandwidth || (b == bandwidth && l < latency)) {
        tied.clear();
        bandwidth = b;
        latency = l;
      }
      if (b == bandwidth && l == latency) tied.push_back(h);
    }
    return tied[target % tied.size()];
  }

  // The target takes `box` of one member: what its device holds from there, the rest from others.
  void take(int member, int target, const Box& box) {
    std::vector<Box> rest = {box};
    if (int s = local[target]; s >= 0 && member_of(from, s) == member)
      for (const Box& own : have[s]) {
        std::vector<Box> inside;
        rest = split_by(rest, own, inside);
        for (Box& b : inside) emit(s, target, std::move(b));
      }
    // Cut so that each fragment is held whole, or not at all, by everyone.
    struct Fragment {
      Box box;
      std::vector<int> holders;
    };
    std::vector<Fragment> fragments;
    for (Box& b : rest) fragments.push_back({std::move(b), {}});
    if (fragments.empty()) return;
    const std::vector<size_t> all_near = held_near(box, member);
    if (all_near.size() >= kMany && are_disjoint(member)) {
      for (const Fragment& f : fragments) {
        int64_t missing = volume(f.box);
        for (size_t near : all_near) {
          Box meet = intersect(f.box, held[member][near].box);
          if (is_empty(meet)) continue;
          missing -= volume(meet);
          emit(fastest(held[member][near].positions, target), target, std::move(meet));
        }
        if (missing != 0)
          ensure(false, "no position of {} holds all of {}, which position {} of {} needs", to_string(from),
                 to_string(f.box), target, to_string(to));
      }
      return;
    }
    for (size_t near : all_near) {
      const Held& h = held[member][near];
      if (std::none_of(fragments.begin(), fragments.end(),
                       [&](const Fragment& f) { return overlap(f.box, h.box) > 0; }))
        continue;
      std::vector<Fragment> next;
      for (Fragment& f : fragments) {
        Box meet = intersect(f.box, h.box);
        if (is_empty(meet)) {
          next.push_back(std::move(f));
          continue;
        }
        for (Box& b : subtract(f.box, h.box)) next.push_back({std::move(b), f.holders});
        f.holders.insert(f.holders.end(), h.positions.begin(), h.positions.end());
        next.push_back({std::move(meet), std::move(f.holders)});
      }
      fragments = std::move(next);
    }
    for (Fragment& f : fragments) {
      if (f.holders.empty())
        ensure(false, "no position of {} holds {}, which position {} of {} needs", to_string(from), to_string(f.box),
               target, to_string(to));
      std::sort(f.holders.begin(), f.holders.end());
      emit(fastest(f.holders, target), target, std::move(f.box));
    }
  }

  void to_whole() {
    for (int t = 0; t < to.mesh.positions(); ++t)
      for (int m = 0; m < members && listed[t]; ++m)
        for (const Box& box : want[t]) take(m, t, box);
  }

  // Targets that want the same boxes, by the member of their groups that they are.
  struct Wanting {
    std::vector<Box> boxes;
    std::vector<std::vector<int>> targets;  // by member
  };

  std::vector<Wanting> wanting() const {
    auto less = [](const std::vector<Box>& a, const std::vector<Box>& b) {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), before);
    };
    std::map<std::vector<Box>, size_t, decltype(less)> places(less);
    std::vector<Wanting> all;
    for (int t = 0; t < to.mesh.positions(); ++t) {
      const auto [place, fresh] = places.try_emplace(want[t], all.size());
      if (fresh) all.push_back({want[t], std::vector<std::vector<int>>(member_count(to))});
      all[place->second].targets[member_of(to, t)].push_back(t);
    }
    return all;
  }

  // Disjoint boxes that cover what is wanted, each inside or outside every box of either side; in order.
  std::vector<Box> cells(const std::vector<Wanting>& wanted) const {
    std::vector<Box> fragments;
    for (const Wanting& w : wanted)
      for (const Box& box : w.boxes) {
        std::vector<Box> fresh = {box};
        for (const Box& f : fragments) {
          std::vector<Box> known;
          fresh = split_by(fresh, f, known);
        }
        std::vector<Box> inside, rest = split_by(fragments, box, inside);
        for (std::vector<Box>* more : {&inside, &fresh}) rest.insert(rest.end(), more->begin(), more->end());
        fragments = std::move(rest);
      }
    for (const std::vector<Held>& list : held)
      for (const Held& h : list)
        for (size_t i = 0, end = fragments.size(); i < end; ++i) {
          if (overlap(fragments[i], h.box) == 0 || contains(h.box, fragments[i])) continue;
          for (Box& b : subtract(fragments[i], h.box)) fragments.push_back(std::move(b));
          fragments[i] = intersect(fragments[i], h.box);
        }
    std::sort(fragments.begin(), fragments.end(), before);
    return fragments;
  }

  // By member, the targets whose own device holds the box as a part of it.
  std::vector<std::vector<int>> holders_of(const Box& box, const std::vector<int>& target_at) const {
    std::vector<std::vector<int>> holders(members);
    for (int m = 0; m < members; ++m) {
      for (size_t near : held_near(box, m)) {
        if (!contains(held[m][near].box, box)) continue;
        for (int s : held[m][near].positions)
          if (target_at[s] >= 0) holders[m].push_back(target_at[s]);
      }
      std::sort(holders[m].begin(), holders[m].end());
      holders[m].erase(std::unique(holders[m].begin(), holders[m].end()), holders[m].end());
    }
    return holders;
  }

  // Each member's values go to one member of the target's groups, the same wherever the target has replicas of it; the
  // other members keep the identity. For each stretch of elements the choice that moves least.
  void to_partial() {
    for (int t = 0; t < to.mesh.positions(); ++t)
      for (int other : member_of(to, t) == 0 ? to.partial_group(t) : std::vector<int>())
        if (want[other] != want[t]) ensure(false, "a partial group of {} has different boxes", to_string(to));
    if (std::find(listed.begin(), listed.end(), 1) == listed.end()) return;
    const std::vector<Wanting> wanted = wanting();
    const int target_members = member_count(to);
    std::vector<int> target_at(from.mesh.positions(), -1), member_at;  // by position of `from`; by target
    std::vector<char> wants(to.mesh.positions());                      // by target: the cell
    for (int t = 0; t < to.mesh.positions(); ++t) {
      member_at.push_back(member_of(to, t));
      if (local[t] >= 0) target_at[local[t]] = t;
    }
    const bool whole_first = in_parts(from) && from.reducer() != to.reducer();  // all members must meet in one place
    const bool may_keep = !in_parts(from) &&
                          idempotent(to.reducer());  // max and min may take a value twice: then whoever has it keeps it
    std::vector<int64_t> cost(target_members);
    for (const Box& f : cells(wanted)) {
      std::vector<int64_t> all(target_members, 0);
      std::fill(wants.begin(), wants.end(), 0);
      for (const Wanting& w : wanted) {
        if (std::none_of(w.boxes.begin(), w.boxes.end(), [&](const Box& b) { return contains(b, f); })) continue;
        for (int m = 0; m < target_members; ++m) {
          all[m] += static_cast<int64_t>(w.targets[m].size()) * (whole_first ? members : 1);
          for (int t : w.targets[m]) wants[t] = 1;
        }
      }
      const std::vector<std::vector<int>> holders = holders_of(f, target_at);
      for (int m = 0; m < members; m += whole_first ? members : 1) {
        cost = all;
        for (int each = m; each < (whole_first ? members : m + 1); ++each)
          for (int t : holders[each]) cost[member_at[t]] -= wants[t];
        int chosen = m % target_members;
        for (int t = 0; t < target_members; ++t)
          if (cost[t] < cost[chosen]) chosen = t;
        for (int t = 0; t < to.mesh.positions(); ++t) {
          if (!listed[t] || !wants[t] || !(member_at[t] == chosen || (may_keep && cost[member_at[t]] == 0))) continue;
          for (int each = m; each < (whole_first ? members : m + 1); ++each) take(each, t, f);
        }
      }
    }
  }
};

constexpr int kMaskBits = 64;

// What Fetcher::to_partial() moves, over one factoring, counted cell by cell of the grid that the boxes' ends make: per
// cell and member what the member of the target's groups lacks that lacks least. Meshes of at most kMaskBits positions.
class ElementsIntoParts {
 public:
  ElementsIntoParts(const Layout& from, const Layout& to)
      : members_(member_count(from)), from_member_(members_, 0), to_member_(member_count(to), 0) {
    whole_first_ = in_parts(from) && from.reducer() != to.reducer();
    uint64_t have = 0, want = 0;  // by position of the target
    const int positions = to.mesh.positions();
    std::vector<int> local;
    for (int t = 0; t < positions; ++t) {
      const uint64_t bit = uint64_t{1} << t;
      local.push_back(from.mesh.position_of(to.mesh.devices[t]));
      if (!is_empty(to.boxes[t])) want |= bit;
      to_member_[member_of(to, t)] |= bit;
      if (local[t] < 0) continue;
      from_member_[member_of(from, local[t])] |= bit;
      if (!is_empty(from.boxes[local[t]])) have |= bit;
    }
    axes_.resize(to.boxes[0].size());
    for (size_t f = 0; f < axes_.size(); ++f) {
      std::vector<int64_t> ends;
      for (int t = 0; t < positions; ++t) {
        ends.insert(ends.end(), {to.boxes[t][f].lo, to.boxes[t][f].hi});
        if (local[t] >= 0) ends.insert(ends.end(), {from.boxes[local[t]][f].lo, from.boxes[local[t]][f].hi});
      }
      std::sort(ends.begin(), ends.end());
      ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
      for (size_t e = 0; e + 1 < ends.size(); ++e) {
        const Interval range{ends[e], ends[e + 1]};
        Segment segment{range.size(), 0, 0};
        for (int t = 0; t < positions; ++t) {
          const uint64_t bit = uint64_t{1} << t;
          if (to.boxes[t][f].contains(range)) segment.want |= bit;
          if (local[t] >= 0 && from.boxes[local[t]][f].contains(range)) segment.have |= bit;
        }
        axes_[f].push_back(segment);
      }
    }
    add(0, 1, have, want);
  }
  int64_t count() const { return sum_; }

 private:
  struct Segment {
    int64_t size;
    uint64_t have, want;
  };

  void add(size_t axis, int64_t volume, uint64_t have, uint64_t want) {
    if (want == 0) return;
    if (axis < axes_.size()) {
      for (const Segment& s : axes_[axis]) add(axis + 1, volume * s.size, have & s.have, want & s.want);
      return;
    }
    for (int m = 0; m < members_; m += whole_first_ ? members_ : 1) {
      int64_t least = kUnreachable;
      for (const uint64_t group : to_member_) {
        const int64_t all = std::popcount(want & group);
        least = std::min(least, whole_first_ ? members_ * all - std::popcount(want & group & have)
                                             : all - std::popcount(want & group & have & from_member_[m]));
      }
      sum_ += least * volume;
    }
  }

  int members_;
  bool whole_first_ = false;
  std::vector<uint64_t> from_member_,
      to_member_;  // positions of the target: whose own device has, and who is, each member
  std::vector<std::vector<Segment>> axes_;
  int64_t sum_ = 0;
};

// The same on one mesh of any size. Of what a position wants and its device has, the most that one member of the
// target's groups has; since the boxes do not depend on the coordinates that number members, that is a product over
// groups of mesh axes and dimensions that hang together. Boxes of a partial group are equal, on both sides.
class ElementsIntoPartsOfOneMesh {
 public:
  using Known = std::unordered_map<std::string, int64_t>;  // by group

  // With a memory, or null.
  ElementsIntoPartsOfOneMesh(const Layout& from, const Layout& to, CommonVolumes* numbers, Known* known)
      : from_(from), to_(to), extents_(to.mesh.extents), numbers_(numbers), known_(known) {
    const bool whole_first = in_parts(from) && from.reducer() != to.reducer();
    const int64_t members = member_count(from),
                  wanted = (numbers ? numbers->of(to.boxes, to.boxes) : total_volume(to.boxes)) / member_count(to);
    // Of each element once a member: what all positions of one of the target's members want, less what is there.
    int64_t there = 1;
    std::vector<bool> seen(extents_.size(), false);
    for (size_t a = 0; a < extents_.size(); ++a)
      if (!seen[a]) there *= most_there(group_of(a, seen), !whole_first);
    for (size_t f = 0; f < to.boxes.rank(); ++f)
      if (to.boxes.along(f).axes.empty() && from.boxes.along(f).axes.empty())
        there *= intersect(to.boxes.at(0, f), from.boxes.at(0, f)).size();
    count_ = times(members, wanted) - there;
  }
  int64_t count() const { return count_; }

 private:
  struct Group {
    std::vector<int> axes;
    std::vector<size_t> dimensions;
  };

  Group group_of(size_t first, std::vector<bool>& seen) const {
    Group group{{static_cast<int>(first)}, {}};
    seen[first] = true;
    std::vector<bool> listed(to_.boxes.rank(), false);
    for (size_t i = 0; i < group.axes.size(); ++i)
      for (size_t f = 0; f < listed.size(); ++f) {
        const std::vector<int> axes = joined_axes(to_.boxes.along(f).axes, from_.boxes.along(f).axes);
        if (listed[f] || std::find(axes.begin(), axes.end(), group.axes[i]) == axes.end()) continue;
        listed[f] = true;
        group.dimensions.push_back(f);
        for (int a : axes)
          if (!seen[a]) seen[a] = true, group.axes.push_back(a);
      }
    std::sort(group.axes.begin(), group.axes.end());
    return group;
  }

  // Over all cells of the grid that the boxes' ends make, and over the source's members where they count apart: the
  // elements times how many of one of the target's members have them, of the one where these are most.
  int64_t most_there(const Group& group, bool apart) const {
    if (!known_) return counted(group, apart);
    std::string key(1, static_cast<char>(apart));
    auto put = [&](int v) { key.append(reinterpret_cast<const char*>(&v), sizeof v); };
    for (int a : group.axes) put(a << 2 | to_.kinds[a].has_value() << 1 | from_.kinds[a].has_value());
    for (size_t f : group.dimensions) put(numbers_->number_of(to_.boxes, f)), put(numbers_->number_of(from_.boxes, f));
    const auto [found, fresh] = known_->try_emplace(std::move(key));
    if (fresh) found->second = counted(group, apart);
    return found->second;
  }

  int64_t counted(const Group& group, bool apart) const {
    const size_t rank = group.dimensions.size();
    const std::vector<int> source_axes = apart ? partial_among(from_, group.axes) : std::vector<int>();
    const std::vector<size_t> target_of = places_on(extents_, group.axes, partial_among(to_, group.axes)),
                              source_of = places_on(extents_, group.axes, source_axes);
    Cells cells{rank, {}, {}, {}};
    std::vector<Interval> there(rank * target_of.size());  // by position of the group, along each dimension
    for (size_t i = 0; i < rank; ++i)
      for_each_two(
          extents_, group.axes, to_.boxes.along(group.dimensions[i]), from_.boxes.along(group.dimensions[i]),
          [&](size_t p, const Interval& to, const Interval& from) { there[p * rank + i] = intersect(to, from); });
    for (size_t p = 0; p < target_of.size(); ++p) {
      const Interval* box = there.data() + p * rank;
      if (std::any_of(box, box + rank, [](const Interval& i) { return i.empty(); })) continue;
      cells.boxes.insert(cells.boxes.end(), box, box + rank);
      cells.target.push_back(target_of[p]);
      cells.source.push_back(source_of[p]);
    }
    std::vector<size_t> all(cells.target.size());
    std::iota(all.begin(), all.end(), 0);
    return cells.count(all, 0, 1);
  }

  // What is there at some positions, and of which member of either side.
  struct Cells {
    size_t rank;
    std::vector<Interval> boxes;  // [position][dimension]
    std::vector<size_t> target, source;

    int64_t count(const std::vector<size_t>& some, size_t axis, int64_t volume) const {
      if (some.empty()) return 0;
      if (axis == rank) return volume * most_of(some);
      std::vector<std::pair<int64_t, size_t>> begins;
      std::vector<int64_t> ends;
      for (size_t i : some) {
        const Interval& along = boxes[i * rank + axis];
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
        std::erase_if(here, [&](size_t i) { return boxes[i * rank + axis].hi <= ends[e]; });
        for (; next != begins.end() && next->first == ends[e]; ++next) here.push_back(next->second);
        sum += count(here, axis + 1, volume * (ends[e + 1] - ends[e]));
      }
      return sum;
    }

    // Over the source's members, the most that one of the target's has of it.
    int64_t most_of(const std::vector<size_t>& some) const {
      std::vector<std::pair<size_t, size_t>> members;
      for (size_t i : some) members.emplace_back(source[i], target[i]);
      std::sort(members.begin(), members.end());
      int64_t sum = 0, most = 0, same = 0;
      for (size_t i = 0; i < members.size(); ++i) {
        same = i > 0 && members[i] == members[i - 1] ? same + 1 : 1;
        most = std::max(most, same);
        if (i + 1 == members.size() || members[i + 1].first != members[i].first) sum += std::exchange(most, 0);
      }
      return sum;
    }
  };

  static std::vector<int> partial_among(const Layout& layout, const std::vector<int>& axes) {
    std::vector<int> partial;
    for (int a : axes)
      if (layout.kinds[a]) partial.push_back(a);
    return partial;
  }

  const Layout &from_, &to_;
  const std::vector<int>& extents_;
  CommonVolumes* numbers_;
  Known* known_;
  int64_t count_ = 0;
};

}  // namespace

// Counts elements, with a memory or without. Not thread-safe.
class Counter {
 public:
  Counter(const Cluster& of, bool remembers, Listed devices = nullptr)
      : cluster(of), listed(std::move(devices)), remembers_(remembers) {}

  int64_t total(const Boxes& boxes) const {
    return remembers_ ? memory(boxes.extents()).volumes.of(boxes, boxes) : total_volume(boxes);
  }
  int64_t common(const Boxes& a, const Boxes& b) const {
    return remembers_ ? memory(a.extents()).volumes.of(a, b) : common_volume(a, b);
  }
  int64_t into_parts(const Layout& from, const Layout& to) const {
    if (!remembers_) return ElementsIntoPartsOfOneMesh(from, to, nullptr, nullptr).count();
    Memory& m = memory(to.mesh.extents);
    return ElementsIntoPartsOfOneMesh(from, to, &m.volumes, &m.most_there).count();
  }
  void make_known(Layout& layout) const {
    if (remembers_) layout.boxes = memory(layout.mesh.extents).volumes.known(layout.boxes);
  }

  const Cluster& cluster;
  const Listed listed;

 private:
  struct Memory {
    CommonVolumes volumes;
    ElementsIntoPartsOfOneMesh::Known most_there;
  };
  Memory& memory(const std::vector<int>& extents) const {
    if (!last_ || last_->first != extents)
      last_ = &*memories_.try_emplace(extents, Memory{CommonVolumes(extents), {}}).first;
    return last_->second;
  }

  bool remembers_;
  mutable std::map<std::vector<int>, Memory> memories_;
  mutable std::pair<const std::vector<int>, Memory>* last_ = nullptr;
};

namespace {

// Elements that a fetch moves; without pieces where no part of the answer depends on them.
int64_t fetch_elements(const Layout& from, const Layout& to, const Counter& counter) {
  const Cluster& cluster = counter.cluster;
  if (in_parts(to)) {
    if (from.radices != to.radices) return Fetcher(from, to, cluster).moved;
    if (from.mesh == to.mesh) return counter.into_parts(from, to);
    const bool few = from.mesh.positions() <= kMaskBits && to.mesh.positions() <= kMaskBits;
    return few ? ElementsIntoParts(from, to).count() : Fetcher(from, to, cluster).moved;
  }
  int64_t members = member_count(from), moved = 0;
  bool same_devices = from.mesh.devices == to.mesh.devices;
  if (from.radices != to.radices) {
    const std::vector<Shape> radices = step_radices(from, to);
    const std::vector<std::vector<Box>> have = contents(from, radices), want = contents(to, radices);
    for (int t = 0; t < to.mesh.positions(); ++t) {
      const int s = same_devices ? t : from.mesh.position_of(to.mesh.devices[t]);
      for (const Box& wanted : want[t]) {
        moved += members * volume(wanted);
        if (s >= 0)
          for (const Box& own : have[s]) moved -= overlap(wanted, own);
      }
    }
    return moved;
  }
  if (from.mesh == to.mesh) return times(members, counter.total(to.boxes)) - counter.common(to.boxes, from.boxes);
  for (int t = 0; t < to.mesh.positions(); ++t) {
    int s = same_devices ? t : from.mesh.position_of(to.mesh.devices[t]);
    moved += members * volume(to.boxes[t]) - (s >= 0 ? overlap(to.boxes[t], from.boxes[s]) : 0);
  }
  return moved;
}

// ---------------------------------------------------------------- one step that is not a fetch

struct NamedStep {
  StepKind kind;
  std::vector<int> axes;  // the mesh axes that change, which act as one
};

// The mesh axes that differ must all go from one Sbp to one Sbp. Where S(i) is added or removed while an axis further
// in splits i, the step is a fetch. Axes of extent 1 do nothing.
std::optional<NamedStep> named_step(const NdSbp& from, const NdSbp& to, const std::vector<int>& extents) {
  NamedStep step{StepKind::kLocal, {}};
  for (size_t a = 0; a < from.size(); ++a)
    if (extents[a] > 1 && from[a] != to[a]) step.axes.push_back(static_cast<int>(a));
  if (step.axes.empty()) return step;
  Sbp x = from[step.axes[0]], y = to[step.axes[0]];
  for (int a : step.axes)
    if (from[a] != x || to[a] != y) return std::nullopt;
  for (const Sbp& s : {x, y}) {
    if (s.kind != Sbp::Kind::kSplit) continue;
    for (size_t a = step.axes[0] + 1; a < from.size(); ++a)
      if (extents[a] > 1 && from[a] == to[a] && from[a] == s) {
        step.kind = StepKind::kFetch;
        return step;
      }
  }
  using K = Sbp::Kind;
  if (x.kind == K::kPartial) {
    if (y.kind == K::kPartial) return std::nullopt;  // another reducer
    step.kind = y.kind == K::kBroadcast ? StepKind::kAllReduce : StepKind::kReduceScatter;
  } else if (x.kind == K::kSplit && y.kind != K::kPartial) {
    step.kind = y.kind == K::kBroadcast ? StepKind::kAllGather : StepKind::kAllToAll;
  }
  return step;
}

// Positions that differ on `axes` only, in row-major order.
std::vector<std::vector<int>> groups_over(const Mesh& mesh, const std::vector<int>& axes, const Listed& listed) {
  std::vector<std::vector<int>> groups;
  std::vector<int> group_of(mesh.positions(), -1);
  for (int p = 0; p < mesh.positions(); ++p) {
    std::vector<int> c = mesh.coordinates(p);
    for (int a : axes) c[a] = 0;
    int first = mesh.position(c);
    if (first == p) {
      group_of[p] = static_cast<int>(groups.size());
      groups.emplace_back();
    }
    groups[group_of[first]].push_back(p);
  }
  if (listed)
    std::erase_if(groups, [&](const std::vector<int>& group) {
      return std::none_of(group.begin(), group.end(), [&](int p) { return (*listed)[mesh.devices[p].index()]; });
    });
  return groups;
}

// Elements that a named step on one mesh moves: the table's figure for one group's shard, times the groups.
int64_t named_elements(const NamedStep& step, const Layout& from, const Layout& to, const Counter& counter) {
  int64_t group = 1;
  for (int a : step.axes) group *= from.mesh.extents[a];
  switch (step.kind) {
    case StepKind::kLocal:
      return 0;
    case StepKind::kAllReduce:
      return times(2 * (group - 1), counter.total(to.boxes) / group);  // the members' boxes are equal
    case StepKind::kReduceScatter:
      return times(group - 1, counter.total(to.boxes));
    default:
      return counter.total(to.boxes) - counter.common(to.boxes, from.boxes);
  }
}

// A layout with its name, if it has one.
struct Named {
  Layout layout;
  std::optional<NdSbp> name;
};

// Of the steps between two layouts that change one thing, the one there is, if any.
std::optional<NamedStep> step_between(const Named& from, const Named& to) {
  if (from.layout.mesh != to.layout.mesh || from.layout.radices != to.layout.radices) return std::nullopt;
  if (from.name && to.name) return named_step(*from.name, *to.name, from.layout.mesh.extents);
  // Without names: the boxes stay, and some of the partial axes are made whole.
  NamedStep step{StepKind::kAllReduce, {}};
  for (size_t a = 0; a < from.layout.kinds.size(); ++a) {
    if (from.layout.kinds[a] == to.layout.kinds[a]) continue;
    if (to.layout.kinds[a]) return std::nullopt;
    if (from.layout.mesh.extents[a] > 1) step.axes.push_back(static_cast<int>(a));
  }
  if (step.axes.empty() || from.layout.boxes != to.layout.boxes) return std::nullopt;
  return step;
}

bool is_fetch(const std::optional<NamedStep>& step) { return !step || step->kind == StepKind::kFetch; }

int64_t direct_elements(const Named& from, const Named& to, const Counter& counter) {
  if (auto step = step_between(from, to); !is_fetch(step))
    return named_elements(*step, from.layout, to.layout, counter);
  return fetch_elements(from.layout, to.layout, counter);
}

Step fetch_step(const Layout& from, const Layout& to, int64_t element_bytes, const Counter& counter) {
  Fetcher fetcher(from, to, counter.cluster, counter.listed);
  const int64_t moved = counter.listed ? fetch_elements(from, to, counter) : fetcher.moved;
  return {StepKind::kFetch, from, to, {}, std::move(fetcher.pieces), std::move(fetcher.radices), moved * element_bytes};
}

Step direct_step(const Named& from, const Named& to, int64_t element_bytes, const Counter& counter) {
  auto step = step_between(from, to);
  if (!is_fetch(step) && step->kind != StepKind::kLocal)
    return {step->kind,
            from.layout,
            to.layout,
            groups_over(from.layout.mesh, step->axes, counter.listed),
            {},
            from.layout.radices,
            named_elements(*step, from.layout, to.layout, counter) * element_bytes};
  Step made = fetch_step(from.layout, to.layout, element_bytes, counter);
  if (!is_fetch(step) && made.bytes != 0)
    ensure(false, "a local step from {} to {} moves {} bytes", to_string(from.layout), to_string(to.layout),
           made.bytes);
  if (made.bytes == 0) made.kind = StepKind::kLocal;
  return made;
}

// ---------------------------------------------------------------- paths of steps

struct Cost {
  int64_t elements = kUnreachable;
  int moving = 0, fetches = 0, steps = 0;  // steps that move anything, fetches among them, all steps
  auto operator<=>(const Cost&) const = default;
};

struct Node {
  Named at;
  Cost cost;
  int before = -1;
  bool done = false;
};

Cost cost_of(int64_t elements, bool is_fetch) {
  if (elements == kUnreachable) return {};
  return {elements, elements > 0, elements > 0 && is_fetch, 1};
}

// The cost of going straight from one node to another, unreachable if that is not one of the steps that a path is made
// of: those that change one thing, any move that keeps what is partial, and any fetch that leaves nothing partial.
Cost edge(const Named& from, const Named& to, const Counter& counter) {
  auto step = step_between(from, to);
  if (from.layout.kinds == to.layout.kinds)
    return cost_of(counter.total(to.layout.boxes) - counter.common(to.layout.boxes, from.layout.boxes), is_fetch(step));
  if (!step && in_parts(to.layout)) return {};
  return cost_of(direct_elements(from, to, counter), is_fetch(step));
}

Cost plus(const Cost& a, const Cost& b) {
  if (a.elements == kUnreachable || b.elements == kUnreachable) return {};
  return {a.elements + b.elements, a.moving + b.moving, a.fetches + b.fetches, a.steps + b.steps};
}

// S on every axis that can be split.
std::vector<Sbp> splits_of(const Layout& layout) {
  std::vector<Sbp> splits;
  const Shape shape = layout.factored_shape();
  for (size_t s = 0, f = 0; s < layout.radices.size(); ++s)
    for (size_t sub = 0; sub < layout.radices[s].size(); ++sub, ++f)
      if (shape[f] > 1) splits.push_back(Sbp::split(static_cast<int>(s), static_cast<int>(sub)));
  return splits;
}

// Calls go(name) for every name with one of `choices` on each mesh axis, the last axis fastest.
template <typename Go>
void for_each_choice(const std::vector<std::vector<Sbp>>& choices, Go go) {
  std::vector<size_t> counts;
  for (const std::vector<Sbp>& c : choices) counts.push_back(c.size());
  for_each_tuple(counts, [&](const std::vector<size_t>& at) {
    NdSbp name;
    for (size_t a = 0; a < at.size(); ++a) name.push_back(choices[a][at[a]]);
    go(name);
  });
}

// The named layouts of a mesh that a path may pass through: B, S on any axis that can be split, and P where one of the
// ends is partial.
std::vector<Named> named_layouts(const Layout& from, const Layout* to) {
  tdl::Reducer reducer = from.reducer();
  bool join = to && in_parts(*to) && to->reducer() == reducer;
  std::vector<std::vector<Sbp>> choices;
  for (size_t a = 0; a < from.mesh.extents.size(); ++a) {
    choices.push_back(from.mesh.extents[a] > 1 ? splits_of(from) : std::vector<Sbp>());
    choices[a].push_back(Sbp::broadcast());
    if (from.kinds[a] || (join && to->kinds[a])) choices[a].push_back(Sbp::partial(reducer));
  }
  std::vector<Named> all;
  for_each_choice(choices, [&](const NdSbp& sbp) { all.push_back({make_layout(from.mesh, sbp, from.radices), sbp}); });
  return all;
}

// Where a path from a partial layout passes, both ends included.
struct Path {
  std::vector<Named> through;
  Cost cost;
};

// Volume of what the boxes cover together; empty where counting it would take long.
std::optional<int64_t> covered(std::vector<Box> boxes) {
  constexpr int64_t kCells = 1 << 16;
  std::sort(boxes.begin(), boxes.end(), before);
  boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
  std::vector<std::vector<int64_t>> ends(boxes[0].size());  // of the cells, by axis
  int64_t cells = 1;
  for (size_t f = 0; f < ends.size() && cells <= kCells; ++f) {
    for (const Box& b : boxes) ends[f].insert(ends[f].end(), {b[f].lo, b[f].hi});
    std::sort(ends[f].begin(), ends[f].end());
    ends[f].erase(std::unique(ends[f].begin(), ends[f].end()), ends[f].end());
    cells *= static_cast<int64_t>(ends[f].size());
  }
  if (cells > kCells) return std::nullopt;
  int64_t sum = 0;
  std::vector<size_t> at(ends.size(), 0);
  Box cell(ends.size());
  for (;;) {
    for (size_t f = 0; f < at.size(); ++f) cell[f] = {ends[f][at[f]], ends[f][std::min(at[f] + 1, ends[f].size() - 1)]};
    if (const int64_t v = volume(cell);
        v > 0 && std::any_of(boxes.begin(), boxes.end(), [&](const Box& b) { return contains(b, cell); }))
      sum += v;
    size_t f = at.size();
    while (f > 0 && ++at[f - 1] >= ends[f - 1].size()) at[--f] = 0;
    if (f == 0) return sum;
  }
}

// cheapest_path() on a mesh of many axes, whose named layouts are too many to look at: best first (A*; Hart, Nilsson
// and Raphael 1968). Partial values are cut further, for nothing, along an axis on which they are whole, reduced along
// one axis or along all, or fetched into something finer than the end; they are not moved elsewhere. After kExpanded
// layouts it is the best so far that counts.
class GuidedPath {
 public:
  GuidedPath(const Named& from, const Named& to, const Counter& counter) : to_(to), counter_(counter) {
    for (const Box& b : to.layout.boxes) wanted_by_all_ += volume(b), wanted_ = std::max(wanted_, volume(b));
    wanted_at_most_ = wanted_by_all_;
    if (const auto exactly = covered(to.layout.boxes.list())) wanted_ = wanted_at_most_ = *exactly;
    add(from, {0, 0, 0, 0}, -1);
    list_finer();
  }

  Path run() {
    constexpr int kExpanded = 200;
    for (int expanded = 0; expanded < kExpanded; ++expanded) {
      int u = -1;
      for (size_t i = 0; i < nodes_.size(); ++i)
        if (!nodes_[i].done && nodes_[i].cost.elements != kUnreachable && promise_[i] < best_ &&
            (u < 0 || promise_[i] < promise_[u]))
          u = static_cast<int>(i);
      if (u < 0) break;
      nodes_[u].done = true;
      expand(u);
    }
    Path path;
    path.cost = best_;
    for (int u = last_; u >= 0; u = nodes_[u].before) path.through.insert(path.through.begin(), nodes_[u].at);
    if (!same_placement(path.through.back().layout, to_.layout)) path.through.push_back(to_);
    return path;
  }

 private:
  // No path from there is cheaper: of each element wanted all parts but one move to where it is summed up, and from
  // there it moves to everyone who wants it; one of those may be where that is, if a part was there.
  Cost least(const Layout& at) const {
    const int64_t parts = member_count(at);
    int64_t elements = 0;
    if (in_parts(to_.layout)) {
      elements = std::max<int64_t>(0, parts - member_count(to_.layout)) * wanted_;
    } else {
      int64_t there = wanted_at_most_;
      if (at.mesh.devices == to_.layout.mesh.devices && at.radices == to_.layout.radices) {
        there = counter_.common(to_.layout.boxes, at.boxes);
      }
      elements = (parts - 1) * wanted_ + wanted_by_all_ - std::min(wanted_at_most_, there);
    }
    return {elements, elements > 0, 0, elements > 0};
  }

  // What the end is gathered from: on axes where it is whole, split.
  void list_finer() {
    constexpr size_t kMost = 64;
    if (in_parts(to_.layout) || to_.layout.mesh != nodes_[0].at.layout.mesh ||
        to_.layout.radices != nodes_[0].at.layout.radices)
      return;
    const std::vector<Sbp> splits = splits_of(to_.layout);
    auto list = [&](const NdSbp& name) {
      finer_.push_back({make_layout(to_.layout.mesh, name, to_.layout.radices), name});
    };
    if (!to_.name) {
      if (!splits.empty()) list(closest(splits));
      return;
    }
    std::vector<std::vector<Sbp>> choices;
    size_t count = 1;
    auto whole = [&](size_t a) {
      return (*to_.name)[a].kind == Sbp::Kind::kBroadcast && to_.layout.mesh.extents[a] > 1;
    };
    for (size_t a = 0; a < to_.name->size(); ++a) {
      choices.push_back({(*to_.name)[a]});
      if (whole(a)) choices[a].insert(choices[a].end(), splits.begin(), splits.end());
      count *= choices[a].size();
    }
    if (count <= kMost) return for_each_choice(choices, list);
    for (const Sbp& split : splits) {  // on all of those axes
      NdSbp name = *to_.name;
      for (size_t a = 0; a < name.size(); ++a)
        if (whole(a)) name[a] = split;
      list(name);
    }
  }

  // Split on all axes, so that what is there has most of what the end wants: one axis after another, twice.
  NdSbp closest(const std::vector<Sbp>& splits) const {
    NdSbp name(to_.layout.mesh.extents.size(), splits[0]);
    for (size_t i = 0; i < 2 * name.size(); ++i) {
      Sbp best = splits[0];
      int64_t most = -1;
      for (const Sbp& split : splits) {
        name[i % name.size()] = split;
        const Layout at = make_layout(to_.layout.mesh, name, to_.layout.radices);
        const int64_t there = counter_.common(at.boxes, to_.layout.boxes);
        if (there > most) most = there, best = split;
      }
      name[i % name.size()] = best;
    }
    return name;
  }

  void add(const Named& at, const Cost& cost, int before) {
    Cost end = {0, 0, 0, 0};
    if (!same_placement(at.layout, to_.layout))
      end = cost_of(direct_elements(at, to_, counter_), is_fetch(step_between(at, to_)));
    const Cost promise = plus(cost, in_parts(at.layout) ? least(at.layout) : end);
    const size_t i = at.name ? place_.try_emplace(*at.name, nodes_.size()).first->second : nodes_.size();
    if (i == nodes_.size()) nodes_.push_back({at, cost, before}), promise_.push_back(promise);
    else if (!(cost < nodes_[i].cost) || (nodes_[i].done && in_parts(at.layout)))
      return;  // what was expanded stays as it is
    else nodes_[i].cost = cost, nodes_[i].before = before, promise_[i] = promise;
    nodes_[i].done =
        !in_parts(at.layout);  // from a layout without partial values the straight way to the end is the cheapest
    if (const Cost all = plus(cost, end); all < best_) best_ = all, last_ = static_cast<int>(i);
  }

  void go(int u, const NdSbp& name) {
    go(u, {make_layout(nodes_[u].at.layout.mesh, name, nodes_[u].at.layout.radices), name});
  }
  void go(int u, const Named& next) {
    const Cost cost = plus(nodes_[u].cost, edge(nodes_[u].at, next, counter_));
    if (cost.elements != kUnreachable && cost < best_) add(next, cost, u);
  }

  void expand(int u) {
    const Layout at = nodes_[u].at.layout;
    const std::vector<Sbp> splits = splits_of(at);
    for (const Named& finer : finer_) go(u, finer);
    if (!nodes_[u].at.name) {
      Named whole{at, std::nullopt};
      for (tdl::Kind& k : whole.layout.kinds) k.reset();
      add(whole, plus(nodes_[u].cost, edge(nodes_[u].at, whole, counter_)), u);
      std::vector<std::vector<Sbp>> choices;  // its parts where they are
      for (size_t a = 0; a < at.kinds.size(); ++a) {
        choices.push_back({at.kinds[a] ? Sbp::partial(*at.kinds[a]) : Sbp::broadcast()});
        if (!at.kinds[a] && at.mesh.extents[a] > 1) choices[a].insert(choices[a].end(), splits.begin(), splits.end());
      }
      for_each_choice(choices, [&](const NdSbp& name) { go(u, name); });
      return;
    }
    const NdSbp name = *nodes_[u].at.name;
    auto changed = [&](auto which, const Sbp& sbp) {
      NdSbp next = name;
      for (size_t a = 0; a < next.size(); ++a)
        if (at.mesh.extents[a] > 1 && which(a)) next[a] = sbp;
      if (next != name) go(u, next);
    };
    auto partial = [&](size_t a) { return at.kinds[a].has_value(); };
    for (const Sbp& split : splits) changed(partial, split);
    changed(partial, Sbp::broadcast());
    for (size_t a = 0; a < name.size(); ++a) {
      auto this_one = [&](size_t other) { return other == a; };
      if (name[a].kind == Sbp::Kind::kSplit) continue;
      for (const Sbp& split : splits) changed(this_one, split);
      if (partial(a)) changed(this_one, Sbp::broadcast());
    }
  }

  const Named& to_;
  const Counter& counter_;
  int64_t wanted_ = 0, wanted_at_most_ = 0,
          wanted_by_all_ = 0;  // elements: those that anyone wants, and the sum of what each position does
  std::vector<Named> finer_;
  std::vector<Node> nodes_;
  std::vector<Cost> promise_;  // by node
  std::map<NdSbp, size_t> place_;
  Cost best_;
  int last_ = 0;
};

constexpr size_t kAllAxes = 3;  // of a mesh, at most, whose named layouts are all looked at

Path cheapest_path(const Named& from, const Named& to, const Counter& counter) {
  if (from.layout.mesh.extents.size() > kAllAxes) return GuidedPath(from, to, counter).run();
  const Layout* same_mesh_to = from.layout.mesh == to.layout.mesh ? &to.layout : nullptr;
  std::vector<Node> nodes = {{from, {0, 0, 0, 0}}};
  for (Named& n : named_layouts(from.layout, same_mesh_to)) nodes.push_back({std::move(n), {}});
  if (!from.name) {  // its partial values made whole where they are
    Named whole{from.layout, std::nullopt};
    for (tdl::Kind& k : whole.layout.kinds) k.reset();
    nodes.push_back({std::move(whole), {}});
  }
  // Dijkstra's algorithm. From a layout without partial values the straight way to the end is the cheapest.
  Cost best;
  int last = 0;
  for (;;) {
    int u = -1;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (!nodes[i].done && nodes[i].cost.elements != kUnreachable && (u < 0 || nodes[i].cost < nodes[u].cost))
        u = static_cast<int>(i);
    if (u < 0 || nodes[u].cost.elements > best.elements) break;
    nodes[u].done = true;
    Cost end = {0, 0, 0, 0};
    if (!same_placement(nodes[u].at.layout, to.layout))
      end = cost_of(direct_elements(nodes[u].at, to, counter), is_fetch(step_between(nodes[u].at, to)));
    end = plus(nodes[u].cost, end);
    if (end < best) {
      best = end;
      last = u;
    }
    if (!in_parts(nodes[u].at.layout)) continue;
    for (size_t v = 1; v < nodes.size(); ++v) {
      if (nodes[v].done) continue;
      Cost c = plus(nodes[u].cost, edge(nodes[u].at, nodes[v].at, counter));
      if (c < nodes[v].cost) {
        nodes[v].cost = c;
        nodes[v].before = u;
      }
    }
  }
  Path path;
  path.cost = best;
  for (int u = last; u >= 0; u = nodes[u].before) path.through.insert(path.through.begin(), nodes[u].at);
  if (!same_placement(path.through.back().layout, to.layout)) path.through.push_back(to);
  return path;
}

// Meshes that share devices: the parts may also travel as they are, and be made whole at the end.
Path cheapest_path_between_meshes(const Named& from, const Named& to, const Counter& counter) {
  Path best = cheapest_path(from, to, counter);
  if (from.layout.mesh == to.layout.mesh || in_parts(to.layout) || !to.name) return best;
  bool share = false;
  for (DeviceId d : to.layout.mesh.devices) share = share || from.layout.mesh.position_of(d) >= 0;
  if (!share) return best;
  size_t axes = to.name->size();
  for (size_t which = 0; which <= axes; ++which) {  // partial on one axis, then on all
    NdSbp name = *to.name;
    for (size_t a = 0; a < axes; ++a) {
      if (name[a].kind == Sbp::Kind::kPartial) name[a] = Sbp::broadcast();  // on one position
      if (a == which || which == axes) name[a] = Sbp::partial(from.layout.reducer());
    }
    Named middle{make_layout(to.layout.mesh, name, to.layout.radices), name};
    if (!in_parts(middle.layout)) continue;
    int64_t moved = fetch_elements(from.layout, middle.layout, counter);
    if (moved > best.cost.elements) continue;
    Path rest = cheapest_path(middle, to, counter);
    Cost cost = plus(cost_of(moved, true), rest.cost);
    if (cost < best.cost) {
      rest.through.insert(rest.through.begin(), from);
      rest.cost = cost;
      best = std::move(rest);
    }
  }
  return best;
}

// Both over a common factoring where they have one.
std::pair<Layout, Layout> over_common_radices(const Layout& from, const Layout& to) {
  if (from.radices != to.radices)
    if (auto common = common_radices(from.radices, to.radices)) {
      auto f = over_radices(from, *common), t = over_radices(to, *common);
      if (f && t) return {std::move(*f), std::move(*t)};
    }
  return {from, to};
}

// The same devices in the same order, with the same boxes of whole values: whatever the meshes' extents.
bool in_place(const Layout& from, const Layout& to) {
  if (same_placement(from, to)) return true;
  if (in_parts(from) || in_parts(to) || from.mesh.devices != to.mesh.devices || from.radices != to.radices)
    return false;
  if (from.boxes == to.boxes) return true;
  if (!from.boxes.any_empty() || !to.boxes.any_empty()) return false;
  for (size_t p = 0; p < from.boxes.size(); ++p)
    if (from.boxes[p] != to.boxes[p] && !(is_empty(from.boxes[p]) && is_empty(to.boxes[p]))) return false;
  return true;
}

int64_t conversion_elements(const Layout& from, const Layout& to, const Counter& counter) {
  if (from.radices == to.radices && !in_parts(from)) {
    bool same_devices = from.mesh.devices == to.mesh.devices;
    if (!in_parts(to)) {
      if (from.mesh == to.mesh) return counter.total(to.boxes) - counter.common(to.boxes, from.boxes);
      int64_t moved = 0;
      for (int t = 0; t < to.mesh.positions(); ++t) {
        int s = same_devices ? t : from.mesh.position_of(to.mesh.devices[t]);
        moved += volume(to.boxes[t]) - (s >= 0 ? overlap(to.boxes[t], from.boxes[s]) : 0);
      }
      return moved;
    }
    // All positions are one partial group: each keeps what it has.
    if (same_devices && member_count(to) == to.mesh.positions()) return 0;
    if (auto step = step_between({from, name_of(from)}, {to, name_of(to)}); !is_fetch(step))
      return named_elements(*step, from, to, counter);
    return fetch_elements(from, to, counter);
  }
  if (from.radices == to.radices && from.mesh == to.mesh && from.mesh.extents.size() == 1 && !in_parts(to)) {
    // One group, made whole by reduce-scatter into a split and a gather of what is lacking, or by all-reduce.
    const Box whole = from.boxes[0];
    int64_t p = from.mesh.extents[0], t = volume(whole), own = 0, wanted = 0;
    bool full = true;
    size_t f = 0;
    for (const Shape& axis : from.radices)
      for (int64_t r : axis) full = full && whole[f++] == Interval{0, r};
    if (full) {
      for (const Box& b : to.boxes) wanted += volume(b), own += overlap(b, whole);
      int64_t best = std::min(p * wanted - own, 2 * (p - 1) * t + wanted - own);
      f = 0;
      for (const Shape& axis : from.radices)
        for (int64_t r : axis) {
          if (r > 1) {
            int64_t scattered = (p - 1) * t;
            for (int64_t q = 0; q < p; ++q) {
              const Box b = to.boxes[q];
              int64_t v = volume(b);
              if (v) scattered += v - v / b[f].size() * intersect(b[f], cut(r, p, q)).size();
            }
            best = std::min(best, scattered);
          }
          ++f;
        }
      return best;
    }
  }
  auto [f, t] = over_common_radices(from, to);
  if (in_place(f, t)) return 0;
  if (!in_parts(f)) return fetch_elements(f, t, counter);
  return cheapest_path_between_meshes({f, name_of(f)}, {t, name_of(t)}, counter).cost.elements;
}

// Some elements twice and others not at all may be as many as there are.
bool any_overlap(const std::vector<const Piece*>& pieces) {
  for (size_t i = 0; i < pieces.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (overlap(pieces[i]->box, pieces[j]->box) > 0) return true;
  return false;
}

}  // namespace

std::string_view name_of(StepKind kind) {
  constexpr std::string_view names[] = {"local", "all-reduce", "reduce-scatter", "all-gather", "all-to-all", "fetch"};
  static_assert(std::size(names) == static_cast<size_t>(StepKind::kFetch) + 1);
  return names[static_cast<size_t>(kind)];
}

Step fetch(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster, const Listed& listed) {
  ensure(from.shape() == to.shape(), "fetch between shapes {} and {}", fmt::join(from.shape(), "x"),
         fmt::join(to.shape(), "x"));
  auto [f, t] = over_common_radices(from, to);
  return fetch_step(f, t, element_bytes, Counter(cluster, false, listed));
}

int64_t fetch_bytes(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster) {
  auto [f, t] = over_common_radices(from, to);
  return fetch_elements(f, t, Counter(cluster, false)) * element_bytes;
}

std::vector<Target> targets_of(const Step& step) {
  std::vector<int> all(step.to.boxes.size());
  std::iota(all.begin(), all.end(), 0);
  return targets_of(step, all);
}

std::vector<Target> targets_of(const Step& step, const std::vector<int>& positions) {
  std::vector<Target> targets;
  auto piece = step.pieces.begin();
  for (int p : positions) {
    Target& t = targets.emplace_back();
    const Box box = step.to.boxes[static_cast<size_t>(p)];
    int64_t covered = 0;
    for (; piece != step.pieces.end() && piece->target <= p; ++piece) {
      if (piece->target < p || is_empty(piece->box)) continue;
      t.pieces.push_back(&*piece);
      covered += volume(piece->box);
    }
    t.view = t.pieces.size() == 1 && step.from.mesh.devices[t.pieces[0]->source] == step.to.mesh.devices[p] &&
             t.pieces[0]->box == box;
    t.combine = covered != volume(box) || t.pieces.empty() || (step.from.is_partial() && any_overlap(t.pieces));
  }
  return targets;
}

namespace {

Conversion converted(const Layout& from, const Layout& to, int64_t element_bytes, const Counter& counter) {
  ensure(from.shape() == to.shape(), "conversion between shapes {} and {}", fmt::join(from.shape(), "x"),
         fmt::join(to.shape(), "x"));
  Conversion conversion{from, to, {}, 0};
  auto [f, t] = over_common_radices(from, to);
  if (in_place(f, t)) return conversion;
  Path path;
  path.through = {{f, name_of(f)}, {t, name_of(t)}};
  // Nobody can receive less than what it lacks: one step is the cheapest if nothing has to be combined.
  if (in_parts(f)) path = cheapest_path_between_meshes(path.through[0], path.through[1], counter);
  for (size_t i = 1; i < path.through.size(); ++i) {
    conversion.steps.push_back(direct_step(path.through[i - 1], path.through[i], element_bytes, counter));
    conversion.bytes += conversion.steps.back().bytes;
  }
  return conversion;
}

}  // namespace

Conversion convert(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster,
                   const Listed& listed) {
  return converted(from, to, element_bytes, Counter(cluster, false, listed));
}

int64_t conversion_bytes(const Layout& from, const Layout& to, int64_t element_bytes, const Cluster& cluster) {
  return conversion_elements(from, to, Counter(cluster, false)) * element_bytes;
}

// The named layouts of one mesh over one factoring, and what the steps between them move: what cheapest_path() finds
// its way through, worked out once for all ends, each step when it is first asked for.
class Converter::Ways {
 public:
  // Of `partial`: the mesh, the factoring and the reducer.
  Ways(const Layout& partial, const Counter& counter) : counter_(&counter) {
    Layout anywhere = partial;
    for (size_t a = 0; a < anywhere.kinds.size(); ++a) anywhere.kinds[a] = partial.reducer();
    nodes_ = named_layouts(anywhere, nullptr);
    edges_.resize(nodes_.size());
    for (Named& n : nodes_) {
      counter.make_known(n.layout);
      uint64_t axes = 0;
      for (size_t a = 0; a < n.name->size(); ++a)
        if ((*n.name)[a].kind == Sbp::Kind::kPartial) axes |= uint64_t{1} << a;
      partial_axes_.push_back(axes);
    }
  }

  // Where a partial layout gets to by steps: first over the named layouts that are partial on some of `axes` only.
  struct Reach {
    struct Stop {
      Cost cost;
      int node;    // kStart, kWhole, or in nodes_
      int before;  // the stop before it, in stops
    };
    Named start;
    std::vector<Stop> stops;  // nearest first
    Named whole;              // start without a name: made whole where it is
  };

  const Reach& reach(const std::string& key, const Named& from, uint64_t axes) {
    std::unique_ptr<Reach>& reach = reaches_[{key, axes}];
    if (!reach) reach = std::make_unique<Reach>(from_start(from, axes));
    return *reach;
  }

  // The fewest elements from a start to `to`, whose key it is.
  int64_t fewest(const Reach& reach, const std::string& key, const Named& to) {
    std::vector<int64_t>& last = ends_[key];
    last.resize(nodes_.size(), kUnknown);
    int64_t best = kUnreachable;
    for (const auto& [cost, node, before] : reach.stops) {
      if (cost.elements >= best) break;
      int64_t rest = node < 0 ? straight(at(reach, node), to) : last[node];
      if (rest == kUnknown) rest = last[node] = straight(nodes_[node], to);
      if (rest != kUnreachable) best = std::min(best, cost.elements + rest);
    }
    return best;
  }

  // What cheapest_path() finds from a start to `to`.
  std::vector<Layout> through(const Reach& reach, const Named& to) const {
    Cost best;
    int last = 0;
    for (size_t i = 0; i < reach.stops.size() && reach.stops[i].cost.elements <= best.elements; ++i) {
      const Named& from = at(reach, reach.stops[i].node);
      Cost rest{0, 0, 0, 0};
      if (!same_placement(from.layout, to.layout))
        rest = cost_of(direct_elements(from, to, *counter_), is_fetch(step_between(from, to)));
      if (const Cost all = plus(reach.stops[i].cost, rest); all < best) best = all, last = static_cast<int>(i);
    }
    std::vector<Layout> path;
    for (int i = last; i >= 0; i = reach.stops[i].before)
      path.insert(path.begin(), at(reach, reach.stops[i].node).layout);
    if (!same_placement(path.back(), to.layout)) path.push_back(to.layout);
    return path;
  }

 private:
  static constexpr int64_t kUnknown = -1;
  static constexpr int kStart = -1, kWhole = -2;  // nodes of a Reach

  const Named& at(const Reach& reach, int node) const {
    return node == kStart ? reach.start : node == kWhole ? reach.whole : nodes_[node];
  }

  int64_t straight(const Named& from, const Named& to) const {
    return same_placement(from.layout, to.layout) ? 0 : direct_elements(from, to, *counter_);
  }

  Cost step(int from, int to) {
    std::vector<int64_t>& row = edges_[from];
    row.resize(nodes_.size(), kUnknown);
    if (row[to] == kUnknown) {
      const Cost cost = edge(nodes_[from], nodes_[to], *counter_);
      row[to] = cost.elements == kUnreachable ? kUnreachable : 2 * cost.elements + cost.fetches;
    }
    return row[to] == kUnreachable ? Cost() : cost_of(row[to] / 2, row[to] % 2 == 1);
  }

  Reach from_start(const Named& from, uint64_t axes) {
    Reach reach{from, {}, {}};
    if (!from.name) {
      reach.whole = from;
      for (tdl::Kind& k : reach.whole.layout.kinds) k.reset();
    }
    const size_t n = nodes_.size();
    std::vector<Cost> cost(n + 1);  // the last: whole
    std::vector<int> before(n + 1, 0);
    std::vector<bool> done(n + 1, false);
    for (size_t v = 0; v < n; ++v)
      if (!(partial_axes_[v] & ~axes)) cost[v] = edge(from, nodes_[v], *counter_);
    reach.stops.push_back({{0, 0, 0, 0}, kStart, -1});
    if (!from.name) cost[n] = edge(from, reach.whole, *counter_);
    for (;;) {  // Dijkstra's algorithm
      size_t u = n + 1;
      for (size_t i = 0; i <= n; ++i)
        if (!done[i] && cost[i].elements != kUnreachable && (u > n || cost[i] < cost[u])) u = i;
      if (u > n) return reach;
      done[u] = true;
      const int stop = static_cast<int>(reach.stops.size());
      reach.stops.push_back({cost[u], u < n ? static_cast<int>(u) : kWhole, before[u]});
      if (u == n || !in_parts(nodes_[u].layout)) continue;
      auto relax = [&](size_t v, const Cost& more) {
        if (const Cost all = plus(cost[u], more); all < cost[v]) cost[v] = all, before[v] = stop;
      };
      for (size_t v = 0; v < n; ++v)
        if (!done[v] && !(partial_axes_[v] & ~axes)) relax(v, step(static_cast<int>(u), static_cast<int>(v)));
      if (!from.name && !done[n]) relax(n, edge(nodes_[u], reach.whole, *counter_));
    }
  }

  const Counter* counter_;
  std::vector<Named> nodes_;
  std::vector<uint64_t> partial_axes_;  // by node: bits, the mesh axes on which it is partial
  std::vector<std::vector<int64_t>>
      edges_;  // twice the elements, and one for a fetch; rows and entries as they are asked for
  std::unordered_map<std::string, std::vector<int64_t>>
      ends_;  // by an end's key: elements from each node straight there
  std::map<std::pair<std::string, uint64_t>, std::unique_ptr<Reach>> reaches_;
};

// Layouts as keys: everything that a conversion depends on. Meshes and what boxes are along one dimension have numbers
// here.
class Converter::Keys {
 public:
  std::string of(const Layout& l) {
    std::string key;
    auto put = [&](int64_t v) { key.append(reinterpret_cast<const char*>(&v), sizeof v); };
    const auto mesh = std::find(meshes_.begin(), meshes_.end(), l.mesh);
    put(static_cast<int64_t>(mesh - meshes_.begin()));
    if (mesh == meshes_.end()) meshes_.push_back(l.mesh);
    for (const tdl::Kind& k : l.kinds) put(k ? static_cast<int64_t>(*k) : -1);
    for (const Shape& r : l.radices) {
      put(static_cast<int64_t>(r.size()));
      for (int64_t e : r) put(e);
    }
    put(-1);
    for (size_t f = 0; f < l.boxes.rank(); ++f) put(number_of(l.boxes.along(f)));
    return key;
  }

 private:
  int64_t number_of(const Along& along) {
    size_t hash = along.intervals.size();
    for (const Interval& i : along.intervals)
      hash =
          ((hash ^ static_cast<size_t>(i.lo)) * 0x9E3779B97F4A7C15u ^ static_cast<size_t>(i.hi)) * 0x9E3779B97F4A7C15u;
    auto& alike = numbers_[hash];
    for (const auto& [known, number] : alike)
      if (known == along) return number;
    alike.emplace_back(along, count_);
    return count_++;
  }

  std::vector<Mesh> meshes_;
  std::unordered_map<size_t, std::vector<std::pair<Along, int64_t>>> numbers_;
  int64_t count_ = 0;
};

struct Converter::Numbered {
  std::unordered_map<std::string, int> numbers;  // by key
  std::deque<Named> at;
};

int64_t shorten(std::vector<Layout>& layouts) {
  const std::vector<Shape> radices = layouts[0].radices;
  const int64_t positions = layouts[0].mesh.positions();
  int64_t product = 1;
  size_t f = 0;
  for (size_t a = 0; a < radices.size(); ++a)
    for (size_t s = 0; s < radices[a].size(); ++s, ++f) {
      const int64_t part = radices[a][s] / positions;
      if (part < 2 || radices[a][s] % positions != 0) continue;
      auto even = [&](const Interval& i) { return i.lo % part == 0 && i.hi % part == 0; };
      if (!std::all_of(layouts.begin(), layouts.end(),
                       [&](const Layout& l) { return std::ranges::all_of(l.boxes.along(f).intervals, even); }))
        continue;
      product *= part;
      for (Layout& l : layouts) {
        l.radices[a][s] = positions;
        Along along = l.boxes.along(f);
        for (Interval& i : along.intervals) i = {i.lo / part, i.hi / part};
        l.boxes = l.boxes.with(f, std::move(along));
      }
    }
  return product;
}

Converter::Converter(const Cluster& cluster, Listed listed)
    : counter_(std::make_unique<Counter>(cluster, true, std::move(listed))),
      keys_(std::make_unique<Keys>()),
      numbered_(std::make_unique<Numbered>()) {}
Converter::~Converter() = default;

Converter::Ways& Converter::ways_of(const Layout& partial) {
  std::unique_ptr<Ways>& ways = ways_[keys_->of(
      {partial.mesh, partial.radices, {}, std::vector<tdl::Kind>(partial.kinds.size(), partial.reducer())})];
  if (!ways) ways = std::make_unique<Ways>(partial, *counter_);
  return *ways;
}

std::vector<int64_t> Converter::table(const std::vector<Layout>& layouts, const std::vector<int>& from,
                                      const std::vector<int>& to, int64_t element_bytes) {
  std::vector<int64_t> out(from.size() * to.size(), 0);
  // Those over one factoring together, each such group beside each, over what is common to both.
  auto by_factoring = [&](const std::vector<int>& some) {
    std::vector<std::vector<size_t>> groups;  // places in `some`
    for (size_t i = 0; i < some.size(); ++i) {
      const Layout& l = layouts[some[i]];
      const auto alike = std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
        return layouts[some[g[0]]].radices == l.radices && layouts[some[g[0]]].mesh == l.mesh;
      });
      if (alike == groups.end()) groups.push_back({i});
      else alike->push_back(i);
    }
    return groups;
  };
  for (const std::vector<size_t>& rows : by_factoring(from))
    for (const std::vector<size_t>& columns : by_factoring(to)) {
      const Layout &first = layouts[from[rows[0]]], &other = layouts[to[columns[0]]];
      const auto common = first.mesh == other.mesh ? common_radices(first.radices, other.radices) : std::nullopt;
      std::vector<Layout> alike;
      auto take = [&](const std::vector<int>& some, const std::vector<size_t>& which) {
        std::vector<int> places;  // in `alike`; -1: it is not made of boxes there
        for (size_t i : which) {
          auto over = common ? over_radices(layouts[some[i]], *common) : std::nullopt;
          places.push_back(over ? static_cast<int>(alike.size()) : -1);
          if (over) alike.push_back(std::move(*over));
        }
        return places;
      };
      const std::vector<int> f = take(from, rows), t = take(to, columns);
      auto listed = [](std::vector<int> places) {
        std::erase(places, -1);
        return places;
      };
      const std::vector<int> all_f = listed(f), all_t = listed(t);
      const std::vector<int64_t> counted = alike_table(std::move(alike), all_f, all_t, element_bytes);
      size_t row = 0;
      for (size_t r = 0; r < rows.size(); ++r) {
        size_t column = 0;
        for (size_t c = 0; c < columns.size(); ++c) {
          int64_t& entry = out[rows[r] * to.size() + columns[c]];
          if (f[r] >= 0 && t[c] >= 0) entry = counted[row * all_t.size() + column];
          else entry = bytes(layouts[from[rows[r]]], layouts[to[columns[c]]], element_bytes);
          column += t[c] >= 0;
        }
        row += f[r] >= 0;
      }
    }
  return out;
}

std::vector<int64_t> Converter::alike_table(std::vector<Layout> all, const std::vector<int>& from,
                                            const std::vector<int>& to, int64_t element_bytes) {
  std::vector<int64_t> out;
  if (from.empty() || to.empty()) return out;
  const int64_t scale = shorten(all) * element_bytes;
  std::vector<Named> at;
  std::vector<std::string> keys;
  std::vector<uint64_t> axes;
  std::vector<int64_t> volumes;
  const bool partials = std::any_of(all.begin(), all.end(), in_parts);
  for (Layout& l : all) {
    counter_->make_known(l);
    volumes.push_back(counter_->total(l.boxes));
    axes.push_back(partial_axes(l));
    if (!partials) continue;
    keys.push_back(keys_->of(l));
    at.push_back({l, name_of(l)});
  }
  for (int f : from) {
    const bool in_parts_first = partials && in_parts(all[f]);
    Ways* ways = in_parts_first && all[f].mesh.extents.size() <= kAllAxes ? &ways_of(all[f]) : nullptr;
    std::map<uint64_t, const Ways::Reach*> reaches;
    for (int t : to) {
      int64_t elements = 0;
      if (!in_parts_first && (!partials || !in_parts(all[t]))) {
        elements = volumes[t] - counter_->common(all[t].boxes, all[f].boxes);
      } else if (in_parts_first && !ways) {
        auto [found, fresh] = guided_.try_emplace(keys[f] + keys[t]);
        if (fresh) found->second = GuidedPath(at[f], at[t], *counter_).run().cost.elements;
        elements = found->second;
      } else if (ways) {
        const bool join = in_parts(all[t]) && all[t].reducer() == all[f].reducer();
        const uint64_t over = axes[f] | (join ? axes[t] : 0);
        const Ways::Reach*& reach = reaches[over];
        if (!reach) reach = &ways->reach(keys[f], at[f], over);
        elements = ways->fewest(*reach, keys[t], at[t]);
      } else if (member_count(all[t]) != all[t].mesh.positions()) {  // else each keeps what it has
        elements = direct_elements(at[f], at[t], *counter_);
      }
      out.push_back(elements * scale);
    }
  }
  return out;
}

int Converter::number(const Layout& layout) {
  const auto [found, fresh] = numbered_->numbers.try_emplace(keys_->of(layout), static_cast<int>(numbered_->at.size()));
  if (fresh) numbered_->at.push_back({layout, name_of(layout)});
  return found->second;
}

std::vector<int> Converter::through(int from, int to) {
  const Named &f = numbered_->at[from], &t = numbered_->at[to];
  if (f.layout.radices != t.layout.radices) {
    const auto [fine_from, fine_to] = over_common_radices(f.layout, t.layout);
    if (fine_from.radices == fine_to.radices) return through(number(fine_from), number(fine_to));
  }
  if (in_place(f.layout, t.layout)) return {};
  if (!in_parts(f.layout)) return {from, to};
  std::vector<int> path;
  if (f.layout.mesh == t.layout.mesh && f.layout.radices == t.layout.radices &&
      f.layout.mesh.extents.size() <= kAllAxes) {
    const bool join = in_parts(t.layout) && t.layout.reducer() == f.layout.reducer();
    const uint64_t axes = partial_axes(f.layout) | (join ? partial_axes(t.layout) : 0);
    Ways& ways = ways_of(f.layout);
    for (const Layout& layout : ways.through(ways.reach(keys_->of(f.layout), f, axes), t))
      path.push_back(number(layout));
  } else {
    for (const Named& n : cheapest_path_between_meshes(f, t, *counter_).through) path.push_back(number(n.layout));
  }
  return path;
}

Step Converter::step(int from, int to, int64_t element_bytes) const {
  return direct_step(numbered_->at[from], numbered_->at[to], element_bytes, *counter_);
}

const Conversion& Converter::convert(const Layout& from, const Layout& to, int64_t element_bytes) {
  std::string key(reinterpret_cast<const char*>(&element_bytes), sizeof element_bytes);
  key += keys_->of(from) + keys_->of(to);
  auto it = conversions_.find(key);
  if (it == conversions_.end())
    it = conversions_.emplace(std::move(key), converted(from, to, element_bytes, *counter_)).first;
  return it->second;
}

int64_t Converter::bytes(const Layout& from, const Layout& to, int64_t element_bytes) {
  // Looking it up costs more than counting it, where nothing has to be combined.
  if (from.radices == to.radices && !in_parts(from) && !in_parts(to))
    return conversion_elements(from, to, *counter_) * element_bytes;
  std::string key = keys_->of(from) + keys_->of(to);
  auto [it, fresh] = bytes_.try_emplace(std::move(key));
  if (fresh) {
    auto [f, t] = over_common_radices(from, to);
    const bool on_one_mesh = f.radices == t.radices && f.mesh == t.mesh && f.mesh.extents.size() > 1;
    it->second = on_one_mesh && (in_parts(f) || in_parts(t)) ? alike_table({f, t}, {0}, {1}, 1)[0]
                                                             : conversion_elements(f, t, *counter_);
  }
  return it->second * element_bytes;
}

void for_each_inner_conversion(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                               const std::function<void(size_t which, const Layout& from, const Layout& to)>& go) {
  ensure(mesh.extents == derived.mesh, "inner steps of '{}': derived for mesh {}, asked for {}", bound.name,
         fmt::join(derived.mesh, "x"), fmt::join(mesh.extents, "x"));
  auto kinds = derived.kinds;  // as the steps leave them
  for (size_t i = 0; i < derived.inner.size(); ++i) {
    const tdl::InnerStep& inner = derived.inner[i];
    Layout at{mesh, bound.tensors[inner.tensor].radices, derived.boxes[inner.tensor], {}};
    for (size_t a = 0; a < mesh.extents.size(); ++a) at.kinds.push_back(kinds[a][inner.tensor]);
    Layout before = at;
    if (!inner.axes.empty()) {
      for (int a : inner.axes) kinds[a][inner.tensor].reset(), at.kinds[a].reset();
      go(i, before, at);
      before = at;
    }
    if (!inner.needed.empty()) {
      at.boxes = inner.needed;
      go(i, before, at);
    }
  }
}

std::vector<Conversion> inner_conversions(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                                          int64_t element_bytes, Converter& converter) {
  std::vector<Conversion> all(derived.inner.size());
  for_each_inner_conversion(bound, derived, mesh, [&](size_t i, const Layout& from, const Layout& to) {
    const Conversion& part = converter.convert(from, to, element_bytes);
    if (all[i].from.boxes.empty()) all[i].from = from;
    for (const Step& step : part.steps) all[i].steps.push_back(step);
    all[i].bytes += part.bytes;
    all[i].to = to;
  });
  return all;
}

int64_t Converter::inner_bytes(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh,
                               int64_t element_bytes) {
  int64_t sum = 0;
  for_each_inner_conversion(bound, derived, mesh, [&](size_t, const Layout& from, const Layout& to) {
    sum += bytes(from, to, element_bytes);
  });
  return sum;
}

int64_t inner_bytes(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh, int64_t element_bytes,
                    const Cluster& cluster) {
  int64_t bytes = 0;
  Converter converter(cluster);
  for (const Conversion& c : inner_conversions(bound, derived, mesh, element_bytes, converter)) bytes += c.bytes;
  return bytes;
}

}  // namespace partita
