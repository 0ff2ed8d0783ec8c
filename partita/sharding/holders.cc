// Indexes a layout's boxes: who holds each, and which may meet a given box.
#include "partita/sharding/holders.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "partita/base/radices.h"
#include "partita/sharding/members.h"

namespace partita::boxing {

std::vector<Shape> step_radices(const Layout& from, const Layout& to) {
  if (from.radices == to.radices) return from.radices;
  if (auto common = common_radices(from.radices, to.radices)) return *common;
  return unfactored(from.shape());
}

std::vector<std::vector<Box>> boxes_by_position(const Layout& l, const std::vector<Shape>& radices) {
  std::vector<std::vector<Box>> all;
  all.reserve(l.boxes.size());
  bool refines = true;
  for (size_t axis = 0; axis < radices.size(); ++axis)
    refines = refines && radices_within(l.radices[axis], radices[axis]);
  const bool same = l.radices == radices;
  for (const Box& box : l.boxes) {
    if (is_empty(box)) all.emplace_back();
    else if (same) all.emplace_back(1, box);
    else all.push_back(refines ? refined_boxes(box, l.radices, radices) : stored_boxes(box, l.radices));
  }
  return all;
}

namespace {

// Sorts the boxes' beginnings along the axis with most different ones, the first among equals.
void index_beginnings(Holders& holders) {
  const std::vector<Holders::Held>& held = holders.held;
  size_t most = 0;
  std::vector<int64_t> distinct;
  for (size_t axis = 0; !held.empty() && axis < held[0].box.size(); ++axis) {
    distinct.clear();
    for (const Holders::Held& h : held) distinct.push_back(h.box[axis].lo);
    std::sort(distinct.begin(), distinct.end());
    const size_t count = static_cast<size_t>(std::unique(distinct.begin(), distinct.end()) - distinct.begin());
    if (count <= most) continue;
    most = count;
    holders.axis = axis;
    holders.longest = 0;
    holders.beginnings.clear();
    for (size_t i = 0; i < held.size(); ++i) {
      holders.beginnings.emplace_back(held[i].box[axis].lo, i);
      holders.longest = std::max(holders.longest, held[i].box[axis].size());
    }
  }
  std::sort(holders.beginnings.begin(), holders.beginnings.end());
}

}  // namespace

std::vector<Holders> holders_of(const Layout& l, const std::vector<std::vector<Box>>& have) {
  using Places = std::map<Box, size_t, decltype(&box_less)>;
  const int members = partial_member_count(l);
  std::vector<Holders> all(members);
  std::vector<Places> places(members, Places(&box_less));
  for (int p = 0; p < l.mesh.positions(); ++p)
    for (const Box& box : have[p]) {
      const int member = partial_member(l, p);
      std::vector<Holders::Held>& held = all[member].held;
      const auto [place, fresh] = places[member].try_emplace(box, held.size());
      if (fresh) held.push_back({box, {}});
      held[place->second].positions.push_back(p);
    }
  for (Holders& holders : all) index_beginnings(holders);
  return all;
}

std::vector<size_t> held_near(const Holders& holders, const Box& box) {
  std::vector<size_t> near;
  if (holders.beginnings.empty()) {  // of scalars: one box
    near.resize(holders.held.size());
    std::iota(near.begin(), near.end(), 0);
    return near;
  }
  const Interval& along = box[holders.axis];
  const std::pair<int64_t, size_t> first(along.lo - holders.longest + 1, 0);
  for (auto it = std::lower_bound(holders.beginnings.begin(), holders.beginnings.end(), first);
       it != holders.beginnings.end() && it->first < along.hi; ++it)
    near.push_back(it->second);
  std::sort(near.begin(), near.end());
  return near;
}

bool are_disjoint(Holders& holders) {
  if (holders.disjoint) return *holders.disjoint;
  bool disjoint = true;
  for (size_t i = 0; i < holders.held.size() && disjoint; ++i)
    for (size_t near : held_near(holders, holders.held[i].box))
      disjoint = disjoint && (near == i || common_elements(holders.held[i].box, holders.held[near].box) == 0);
  holders.disjoint = disjoint;
  return disjoint;
}

}  // namespace partita::boxing
