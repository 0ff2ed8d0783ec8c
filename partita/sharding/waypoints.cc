// Searches for the cheapest path over the named layouts of one mesh.
#include "partita/sharding/waypoints.h"

#include <algorithm>

#include "partita/base/tuples.h"
#include "partita/sharding/members.h"

namespace partita::boxing {

namespace {

int64_t straight_elements(const NamedLayout& from, const NamedLayout& end, const ElementCounter& counter) {
  return same_placement(from.layout, end.layout) ? 0 : direct_elements(from, end, counter);
}

}  // namespace

Waypoints::Waypoints(const Layout& partial, uint64_t partial_axes, const ElementCounter& counter) : counter_(&counter) {
  std::vector<std::vector<Sbp>> choices;
  std::vector<size_t> counts;
  for (size_t a = 0; a < partial.mesh.extents.size(); ++a) {
    choices.push_back(partial.mesh.extents[a] > 1 ? all_splits(partial) : std::vector<Sbp>());
    choices[a].push_back(Sbp::broadcast());
    if (partial_axes >> a & 1) choices[a].push_back(Sbp::partial(partial.reducer()));
    counts.push_back(choices[a].size());
  }
  for_each_tuple(counts, [&](const std::vector<size_t>& choice) {
    NdSbp name;
    for (size_t a = 0; a < choice.size(); ++a) name.push_back(choices[a][choice[a]]);
    at_.push_back({make_layout(partial.mesh, name, partial.radices), name});
    counter.make_known(at_.back().layout);
    axes_.push_back(boxing::partial_axes(at_.back().layout));
  });
  steps_.resize(at_.size());
}

Cost Waypoints::step(size_t from, size_t to) {
  std::vector<int64_t>& row = steps_[from];
  row.resize(at_.size(), kUnknown);
  if (row[to] == kUnknown) {
    const Cost cost = step_cost(at_[from], at_[to], *counter_);
    row[to] = cost.elements == kUnreachable ? kUnreachable : 2 * cost.elements + cost.fetches;
  }
  return row[to] == kUnreachable ? Cost() : cost_of_step(row[to] / 2, row[to] % 2 == 1);
}

int64_t Waypoints::last_elements(size_t from, const NamedLayout& end, std::vector<int64_t>& known) {
  if (known[from] == kUnknown) known[from] = straight_elements(at_[from], end, *counter_);
  return known[from];
}

Reach::Reach(const NamedLayout& from, uint64_t axes, Waypoints& waypoints)
    : waypoints_(&waypoints),
      axes_(axes),
      start_(from),
      stops_({{{0, 0, 0, 0}, kStart, -1}}),
      cost_(waypoints.size() + 1),
      before_(waypoints.size() + 1, 0),
      done_(waypoints.size() + 1, false) {
  if (!from.name) whole_ = with_whole_values(from);
}

const NamedLayout& Reach::layout_at(const Stop& stop) const {
  return stop.at == kStart ? start_ : stop.at == kWhole ? whole_ : waypoints_->at(static_cast<size_t>(stop.at));
}

const Stop* Reach::stop(size_t i) {
  while (i >= stops_.size())
    if (!next()) return nullptr;
  return &stops_[i];
}

// Lowers the costs of places that one step from the last stop reaches.
void Reach::relax() {
  const Stop last = stops_.back();
  const NamedLayout& here = layout_at(last);
  if (!has_partial_values(here.layout)) return;
  auto lower = [&](size_t v, const Cost& step) {
    if (const Cost all = plus(last.cost, step); all < cost_[v])
      cost_[v] = all, before_[v] = static_cast<int>(stops_.size()) - 1;
  };
  const size_t n = waypoints_->size();
  for (size_t v = 0; v < n; ++v) {
    if (done_[v] || (waypoints_->partial_axes(v) & ~axes_) != 0) continue;
    lower(v, last.at == kStart ? step_cost(here, waypoints_->at(v), waypoints_->counter())
                               : waypoints_->step(static_cast<size_t>(last.at), v));
  }
  if (!start_.name && !done_[n]) lower(n, step_cost(here, whole_, waypoints_->counter()));
}

// Takes the next stop: the nearest reachable place, the first of several. False if there is none.
bool Reach::next() {
  if (ended_) return false;
  relax();
  const size_t n = waypoints_->size();
  size_t nearest = n + 1;
  for (size_t i = 0; i <= n; ++i)
    if (!done_[i] && cost_[i].elements != kUnreachable && (nearest > n || cost_[i] < cost_[nearest])) nearest = i;
  ended_ = nearest > n;
  if (ended_) return false;
  done_[nearest] = true;
  stops_.push_back({cost_[nearest], nearest < n ? static_cast<int>(nearest) : kWhole, before_[nearest]});
  return true;
}

Path path_to(Reach& reach, const NamedLayout& end) {
  Path path;
  int last = 0;
  for (size_t i = 0; const Stop* stop = reach.stop(i); ++i) {
    if (stop->cost.elements > path.cost.elements) break;
    const Cost all = plus(stop->cost, last_step_cost(reach.layout_at(*stop), end, reach.waypoints().counter()));
    if (all < path.cost) path.cost = all, last = static_cast<int>(i);
  }
  for (int i = last; i >= 0; i = reach.stop(static_cast<size_t>(i))->before)
    path.through.insert(path.through.begin(), reach.layout_at(*reach.stop(static_cast<size_t>(i))));
  if (!same_placement(path.through.back().layout, end.layout)) path.through.push_back(end);
  return path;
}

int64_t fewest_elements(Reach& reach, const NamedLayout& end, const std::string& key) {
  Waypoints& waypoints = reach.waypoints();
  std::vector<int64_t>& known = waypoints.known_last_elements(key);
  int64_t best = kUnreachable;
  for (size_t i = 0; const Stop* stop = reach.stop(i); ++i) {
    if (stop->cost.elements >= best) break;
    const int64_t rest = stop->at < 0 ? straight_elements(reach.layout_at(*stop), end, waypoints.counter())
                                      : waypoints.last_elements(static_cast<size_t>(stop->at), end, known);
    if (rest != kUnreachable) best = std::min(best, stop->cost.elements + rest);
  }
  return best;
}

}  // namespace partita::boxing
