// Makes the pieces of a fetch into partial values: chooses the group member that takes each element.
#include <algorithm>
#include <map>

#include "partita/base/error.h"
#include "partita/sharding/fetch.h"
#include "partita/sharding/members.h"

namespace partita::boxing {

namespace {

// Targets that want the same boxes, by their member number in their groups.
struct Wanting {
  std::vector<Box> boxes;
  std::vector<std::vector<int>> targets;  // by member
};

// The groups that take the elements.
struct Groups {
  std::vector<Wanting> wanted;
  int members = 0;                        // of the target's groups
  std::vector<int> member_at, target_at;  // by target; by position of `from`, or -1
  // The target's partial values have another reducer: all parts of an element must meet in one place.
  bool whole_first = false;
  // max and min may take a value twice, so a position that has it keeps it.
  bool may_keep = false;
};

std::vector<Wanting> wanting(const Fetch& fetch) {
  auto less = [](const std::vector<Box>& a, const std::vector<Box>& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), box_less);
  };
  std::map<std::vector<Box>, size_t, decltype(less)> places(less);
  std::vector<Wanting> all;
  for (int t = 0; t < fetch.to.mesh.positions(); ++t) {
    const auto [place, fresh] = places.try_emplace(fetch.want[t], all.size());
    if (fresh) all.push_back({fetch.want[t], std::vector<std::vector<int>>(partial_member_count(fetch.to))});
    all[place->second].targets[partial_member(fetch.to, t)].push_back(t);
  }
  return all;
}

Groups groups_of(const Fetch& fetch) {
  const tdl::Reducer reducer = fetch.to.reducer();
  Groups groups{wanting(fetch), partial_member_count(fetch.to), {}, std::vector<int>(fetch.from.mesh.positions(), -1)};
  for (int t = 0; t < fetch.to.mesh.positions(); ++t) {
    groups.member_at.push_back(partial_member(fetch.to, t));
    if (fetch.local[t] >= 0) groups.target_at[fetch.local[t]] = t;
  }
  groups.whole_first = has_partial_values(fetch.from) && fetch.from.reducer() != reducer;
  groups.may_keep = !has_partial_values(fetch.from) && (reducer == tdl::Reducer::kMax || reducer == tdl::Reducer::kMin);
  return groups;
}

// Divides the wanted boxes into disjoint ones, each inside or outside every box of either side; in order.
std::vector<Box> disjoint_cells(const Fetch& fetch, const std::vector<Wanting>& wanted) {
  std::vector<Box> fragments;
  for (const Wanting& w : wanted)
    for (const Box& box : w.boxes) {
      std::vector<Box> fresh = {box};
      for (const Box& f : fragments) {
        std::vector<Box> known;
        fresh = split_by_box(fresh, f, known);
      }
      std::vector<Box> inside, rest = split_by_box(fragments, box, inside);
      for (std::vector<Box>* more : {&inside, &fresh}) rest.insert(rest.end(), more->begin(), more->end());
      fragments = std::move(rest);
    }
  for (const Holders& holders : fetch.holders)
    for (const Holders::Held& h : holders.held)
      for (size_t i = 0, end = fragments.size(); i < end; ++i) {
        if (common_elements(fragments[i], h.box) == 0 || contains(h.box, fragments[i])) continue;
        for (Box& b : subtract(fragments[i], h.box)) fragments.push_back(std::move(b));
        fragments[i] = intersect(fragments[i], h.box);
      }
  std::sort(fragments.begin(), fragments.end(), box_less);
  return fragments;
}

// The targets whose own device holds the box as a part of this member.
std::vector<int> targets_with(const Holders& holders, const Box& box, const std::vector<int>& target_at) {
  std::vector<int> targets;
  for (size_t near : held_near(holders, box)) {
    if (!contains(holders.held[near].box, box)) continue;
    for (int s : holders.held[near].positions)
      if (target_at[s] >= 0) targets.push_back(target_at[s]);
  }
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return targets;
}

// Gives a cell to the member of the target's groups that lacks least of it. Each member of the source chooses by
// itself, or all of them together if they must meet.
void take_cell(Fetch& fetch, const Groups& groups, const Box& cell) {
  const int sources = static_cast<int>(fetch.holders.size()), together = groups.whole_first ? sources : 1;
  std::vector<int64_t> all(groups.members, 0);  // by member of the target: how often the cell is wanted there
  std::vector<char> wants(fetch.to.mesh.positions());
  for (const Wanting& w : groups.wanted) {
    if (std::none_of(w.boxes.begin(), w.boxes.end(), [&](const Box& b) { return contains(b, cell); })) continue;
    for (int m = 0; m < groups.members; ++m) {
      all[m] += static_cast<int64_t>(w.targets[m].size()) * together;
      for (int t : w.targets[m]) wants[t] = 1;
    }
  }
  std::vector<std::vector<int>> there;  // by member of the source
  for (const Holders& holders : fetch.holders) there.push_back(targets_with(holders, cell, groups.target_at));
  for (int m = 0; m < sources; m += together) {
    std::vector<int64_t> cost = all;
    for (int each = m; each < m + together; ++each)
      for (int t : there[each]) cost[groups.member_at[t]] -= wants[t];
    int chosen = m % groups.members;
    for (int t = 0; t < groups.members; ++t)
      if (cost[t] < cost[chosen]) chosen = t;
    for (int t = 0; t < fetch.to.mesh.positions(); ++t) {
      const int member = groups.member_at[t];
      if (!fetch.wanted[t] || !wants[t]) continue;
      if (member != chosen && !(groups.may_keep && cost[member] == 0)) continue;
      for (int each = m; each < m + together; ++each) take_box(fetch, each, t, cell);
    }
  }
}

}  // namespace

// Sends each member's values to one member of the target's groups, the same one wherever the target has replicas. The
// other members keep the identity. Each cell has the choice that moves least.
void take_into_partials(Fetch& fetch) {
  for (int t = 0; t < fetch.to.mesh.positions(); ++t)
    for (int other : partial_member(fetch.to, t) == 0 ? fetch.to.partial_group(t) : std::vector<int>())
      if (fetch.want[other] != fetch.want[t])
        ensure(false, "a partial group of {} has different boxes", to_string(fetch.to));
  if (std::find(fetch.wanted.begin(), fetch.wanted.end(), 1) == fetch.wanted.end()) return;
  const Groups groups = groups_of(fetch);
  for (const Box& cell : disjoint_cells(fetch, groups.wanted)) take_cell(fetch, groups, cell);
}

}  // namespace partita::boxing
