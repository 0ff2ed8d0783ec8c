// Searches for a cheap path on a mesh of many axes, which has too many named layouts to try all: best first (A*; Hart,
// Nilsson and Raphael 1968). It makes fewer moves than Reach (waypoints.h). Partial values are cut further, for
// nothing, along a mesh axis on which they are whole. They are reduced along one axis or along all. Or they are fetched
// into something finer than the end. After kExpanded layouts the best path so far is the answer.
//
// Reach cannot replace it. Here layouts are made as they are met, and the way to the end is costed when a layout is
// found. Reach costs it when the layout is taken, and breaks ties by that order.
#include <algorithm>
#include <map>
#include <optional>

#include "partita/base/tuples.h"
#include "partita/sharding/members.h"
#include "partita/sharding/path.h"

namespace partita::boxing {

namespace {

// The elements that the end wants.
struct Wanted {
  int64_t by_all = 0;                 // the sum over positions
  int64_t at_least = 0, at_most = 0;  // bounds on what any position wants, each element once
};

struct Node {
  NamedLayout at;
  Cost cost;
  Cost promise;  // no path through it costs less
  int before = -1;
  bool done = false;
};

struct Guided {
  const NamedLayout& end;
  const ElementCounter& counter;
  Wanted wanted;
  std::vector<NamedLayout> finer;  // the end is gathered from these
  std::vector<Node> nodes;
  std::map<NdSbp, size_t> place;  // of nodes with a name
  Cost best;
  int last = 0;  // the node from which the best path goes straight to the end
};

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

// ---------------------------------------------------------------- wanted elements

// Volume of the union of the boxes; empty if counting it would take long.
std::optional<int64_t> covered(std::vector<Box> boxes) {
  constexpr int64_t kCells = 1 << 16;
  std::sort(boxes.begin(), boxes.end(), box_less);
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
  std::vector<size_t> counts;  // of cells along each axis; one end alone makes none
  for (const std::vector<int64_t>& e : ends) counts.push_back(e.size() - 1);
  int64_t sum = 0;
  Box cell(ends.size());
  for_each_tuple(counts, [&](const std::vector<size_t>& at) {
    for (size_t f = 0; f < at.size(); ++f) cell[f] = {ends[f][at[f]], ends[f][at[f] + 1]};
    const int64_t v = volume(cell);
    if (v > 0 && std::any_of(boxes.begin(), boxes.end(), [&](const Box& b) { return contains(b, cell); })) sum += v;
  });
  return sum;
}

Wanted wanted_of(const Layout& end) {
  Wanted wanted;
  for (const Box& b : end.boxes) wanted.by_all += volume(b), wanted.at_least = std::max(wanted.at_least, volume(b));
  wanted.at_most = wanted.by_all;
  if (const auto exactly = covered(end.boxes.list())) wanted.at_least = wanted.at_most = *exactly;
  return wanted;
}

// Counts common elements on meshes of the same devices with other extents.
int64_t common_by_position(const Boxes& a, const Boxes& b) {
  int64_t sum = 0;
  for (size_t p = 0; p < a.size(); ++p) sum += volume(intersect(a[p], b[p]));
  return sum;
}

// A lower bound on paths from a partial layout to the end. All parts but one of each wanted element move to where they
// are summed up. The sum moves from there to everyone who wants it, one of whom may have had a part.
Cost least_cost_from(const Guided& guided, const Layout& at) {
  const Wanted& wanted = guided.wanted;
  const Layout& end = guided.end.layout;
  const int64_t parts = partial_member_count(at);
  int64_t elements = 0;
  if (has_partial_values(end)) {
    elements = std::max<int64_t>(0, parts - partial_member_count(end)) * wanted.at_least;
  } else {
    int64_t there = wanted.at_most;
    if (at.mesh.devices == end.mesh.devices && at.radices == end.radices)
      there =
          at.mesh == end.mesh ? guided.counter.common(end.boxes, at.boxes) : common_by_position(end.boxes, at.boxes);
    elements = (parts - 1) * wanted.at_least + wanted.by_all - std::min(wanted.at_most, there);
  }
  return {elements, elements > 0, 0, elements > 0};
}

// ---------------------------------------------------------------- names to gather the end from

// For an end without a name, finds the split on all axes that gives positions most of it. It changes one mesh axis
// after another, twice.
NdSbp closest_split(const Guided& guided, const std::vector<Sbp>& splits) {
  const Layout& end = guided.end.layout;
  NdSbp name(end.mesh.extents.size(), splits[0]);
  for (size_t i = 0; i < 2 * name.size(); ++i) {
    Sbp best = splits[0];
    int64_t most = -1;
    for (const Sbp& split : splits) {
      name[i % name.size()] = split;
      const Layout at = make_layout(end.mesh, name, end.radices);
      const int64_t there = guided.counter.common(at.boxes, end.boxes);
      if (there > most) most = there, best = split;
    }
    name[i % name.size()] = best;
  }
  return name;
}

// Lists names of the end with S instead of B on some mesh axes. If these are too many, lists those with one split on
// all of these axes.
std::vector<NdSbp> names_finer_than(const NdSbp& name, const std::vector<int>& extents,
                                    const std::vector<Sbp>& splits) {
  constexpr size_t kMost = 64;
  auto whole = [&](size_t a) { return name[a].kind == Sbp::Kind::kBroadcast && extents[a] > 1; };
  std::vector<std::vector<Sbp>> choices;
  size_t count = 1;
  for (size_t a = 0; a < name.size(); ++a) {
    choices.push_back({name[a]});
    if (whole(a)) choices[a].insert(choices[a].end(), splits.begin(), splits.end());
    count *= choices[a].size();
  }
  std::vector<NdSbp> finer;
  if (count <= kMost) {
    for_each_choice(choices, [&](const NdSbp& choice) { finer.push_back(choice); });
    return finer;
  }
  for (const Sbp& split : splits) {
    finer.push_back(name);
    for (size_t a = 0; a < name.size(); ++a)
      if (whole(a)) finer.back()[a] = split;
  }
  return finer;
}

std::vector<NamedLayout> finer_than_end(const Guided& guided, const Layout& start) {
  const Layout& end = guided.end.layout;
  if (has_partial_values(end) || end.mesh != start.mesh || end.radices != start.radices) return {};
  const std::vector<Sbp> splits = all_splits(end);
  std::vector<NdSbp> names;
  if (guided.end.name) names = names_finer_than(*guided.end.name, end.mesh.extents, splits);
  else if (!splits.empty()) names = {closest_split(guided, splits)};
  std::vector<NamedLayout> finer;
  for (const NdSbp& name : names) finer.push_back({make_layout(end.mesh, name, end.radices), name});
  return finer;
}

// ---------------------------------------------------------------- the search

// Adds a layout that a path of this cost reaches, as a node; of two paths to one name the cheaper is kept. Expanded
// nodes stay as they are.
void add_node(Guided& guided, const NamedLayout& at, const Cost& cost, int before) {
  const bool partial = has_partial_values(at.layout);
  const Cost end = last_step_cost(at, guided.end, guided.counter);
  // From a layout without partial values the straight way to the end is the cheapest.
  const Node node{at, cost, plus(cost, partial ? least_cost_from(guided, at.layout) : end), before, !partial};
  std::vector<Node>& nodes = guided.nodes;
  const size_t i = at.name ? guided.place.try_emplace(*at.name, nodes.size()).first->second : nodes.size();
  if (i == nodes.size()) nodes.push_back(node);
  else if (!(cost < nodes[i].cost) || (nodes[i].done && partial)) return;
  else nodes[i] = node;
  if (const Cost all = plus(cost, end); all < guided.best) guided.best = all, guided.last = static_cast<int>(i);
}

void go_to(Guided& guided, int u, const NamedLayout& next) {
  const Node& from = guided.nodes[u];
  const Cost cost = plus(from.cost, step_cost(from.at, next, guided.counter));
  if (cost.elements != kUnreachable && cost < guided.best) add_node(guided, next, cost, u);
}

void go_to(Guided& guided, int u, const NdSbp& name) {
  const Layout& at = guided.nodes[u].at.layout;
  go_to(guided, u, {make_layout(at.mesh, name, at.radices), name});
}

// Expands a layout without a name: it is made whole, or its parts are cut in place.
void expand_unnamed(Guided& guided, int u, const std::vector<Sbp>& splits) {
  const NamedLayout at = guided.nodes[u].at;
  const NamedLayout whole = with_whole_values(at);
  add_node(guided, whole, plus(guided.nodes[u].cost, step_cost(at, whole, guided.counter)), u);
  std::vector<std::vector<Sbp>> choices;
  for (size_t a = 0; a < at.layout.kinds.size(); ++a) {
    const tdl::Kind kind = at.layout.kinds[a];
    choices.push_back({kind ? Sbp::partial(*kind) : Sbp::broadcast()});
    if (!kind && at.layout.mesh.extents[a] > 1) choices[a].insert(choices[a].end(), splits.begin(), splits.end());
  }
  for_each_choice(choices, [&](const NdSbp& name) { go_to(guided, u, name); });
}

void expand_node(Guided& guided, int u) {
  const NamedLayout here = guided.nodes[u].at;  // a copy: nodes are added
  const Layout& at = here.layout;
  const std::vector<Sbp> splits = all_splits(at);
  for (const NamedLayout& finer : guided.finer) go_to(guided, u, finer);
  if (!here.name) return expand_unnamed(guided, u, splits);
  const NdSbp& name = *here.name;
  auto changed = [&](auto which, const Sbp& sbp) {
    NdSbp next = name;
    for (size_t a = 0; a < next.size(); ++a)
      if (at.mesh.extents[a] > 1 && which(a)) next[a] = sbp;
    if (next != name) go_to(guided, u, next);
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

// The node to expand next: the one with the least promise, the first of several; -1 if none can be cheaper than the
// best path.
int next_to_expand(const Guided& guided) {
  const std::vector<Node>& nodes = guided.nodes;
  int u = -1;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (!nodes[i].done && nodes[i].cost.elements != kUnreachable && nodes[i].promise < guided.best &&
        (u < 0 || nodes[i].promise < nodes[u].promise))
      u = static_cast<int>(i);
  return u;
}

}  // namespace

Path guided_path(const NamedLayout& from, const NamedLayout& to, const ElementCounter& counter) {
  constexpr int kExpanded = 200;
  Guided guided{to, counter, wanted_of(to.layout), {}, {}, {}, {}, 0};
  add_node(guided, from, {0, 0, 0, 0}, -1);
  guided.finer = finer_than_end(guided, from.layout);
  for (int expanded = 0; expanded < kExpanded; ++expanded) {
    const int u = next_to_expand(guided);
    if (u < 0) break;
    guided.nodes[u].done = true;
    expand_node(guided, u);
  }
  Path path;
  path.cost = guided.best;
  for (int u = guided.last; u >= 0; u = guided.nodes[u].before)
    path.through.insert(path.through.begin(), guided.nodes[u].at);
  if (!same_placement(path.through.back().layout, to.layout)) path.through.push_back(to);
  return path;
}

}  // namespace partita::boxing
