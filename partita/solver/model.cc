// Computes properties of networks and models: entries, largest costs, and the times that can matter.
#include "partita/solver/model.h"

#include <algorithm>
#include <map>

namespace partita::solver {

namespace {

Wide largest_cost(const Table& table) {
  Wide most = 0;
  bool any = false;
  for (int64_t c : table)
    if (c < kForbidden && (!any || c > most)) most = c, any = true;
  return most;
}

}  // namespace

double count_table_entries(const Network& network) {
  double entries = 0;
  for (const Network::Edge& e : network.edges) entries += static_cast<double>(e.table->size());
  return entries;
}

Wide largest_total_cost(const Network& network) {
  Wide most = 0;
  for (const Table& costs : network.costs) most += largest_cost(costs);
  std::map<const Table*, Wide> known;
  for (const Network::Edge& e : network.edges) {
    const auto [it, fresh] = known.try_emplace(e.table.get(), 0);
    if (fresh) it->second = largest_cost(*e.table);
    most += it->second;
  }
  return most;
}

// At a kept time something has begun, and something ends after it: a neighbour dominates every other time. Times at
// which even the largest amounts fit are dropped too.
std::vector<int64_t> kept_times(const Network& n) {
  std::vector<int64_t> times;
  if (!n.limit) return times;
  std::map<int64_t, std::pair<Wide, Wide>> changes;  // time -> the largest amounts that begin, that end
  for (const Network::Use& u : n.uses) {
    const int64_t largest = *std::max_element(u.amounts.begin(), u.amounts.end());
    if (u.lower >= u.upper || largest == 0) continue;
    changes[u.lower].first += largest;
    changes[u.upper].second += largest;
  }
  Wide load = 0;
  for (auto it = changes.begin(); it != changes.end(); ++it) {
    load += it->second.first - it->second.second;
    auto next = std::next(it);
    if (next != changes.end() && it->second.first > 0 && next->second.second > 0 && load > *n.limit)
      times.push_back(it->first);
  }
  return times;
}

int64_t largest_absolute(const Table& t) {
  int64_t largest = 0;
  for (int64_t c : t)
    if (c < kForbidden) largest = std::max(largest, c < -kForbidden ? kForbidden : std::abs(c));
  return largest;
}

int64_t sweep_entries(const Model& m, const Alive& alive) {
  std::vector<int64_t> values(m.variables(), 0);
  for (int v = 0; v < m.variables(); ++v)
    values[v] = std::count(&alive[m.offset[v]], &alive[m.offset[v]] + m.domain(v), 1);
  int64_t entries = 0;
  for (const Model::Pair& p : m.pairs) {
    const PairTable& t = *m.tables[p.table];
    entries += std::min<int64_t>(values[p.a], t.rows.count) * std::min<int64_t>(values[p.b], t.columns.count) +
               values[p.a] + values[p.b];
  }
  return entries;
}

}  // namespace partita::solver
