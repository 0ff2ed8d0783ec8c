// Orders the elimination of a coarsened cut's classes, group by group.
#include <cmath>
#include <numeric>
#include <set>

#include "partita/network/elimination_order.h"
#include "partita/search/cuts/coarsen.h"

namespace partita {

namespace {

// Entries of a table over the tensors of one op, for ops that are minimised over first.
constexpr int64_t kOpTable = int64_t{1} << 14;

EliminationGame game_of(const CostNetwork& network) {
  std::vector<int> domains;
  for (int v = 0; v < network.variables(); ++v) domains.push_back(network.domain(v));
  std::vector<std::set<int>> neighbours(domains.size());
  for (const CostNetwork::Pair& p : network.pairs) neighbours[p.a].insert(p.b), neighbours[p.b].insert(p.a);
  return EliminationGame(domains, std::move(neighbours));
}

// Counts the groups left when those between at most two others are taken out again and again, and the two joined: none
// of a chain, of forks and joins, of any series-parallel graph.
int entangled_groups(const Coarsened& coarsened) {
  std::vector<std::set<int>> around(coarsened.groups);
  const CostNetwork& network = coarsened.network;
  for (const CostNetwork::Pair& p : network.pairs) {
    const int a = coarsened.group[p.a], b = coarsened.group[p.b];
    if (a != b) around[a].insert(b), around[b].insert(a);
  }
  std::vector<int> waiting(coarsened.groups);
  std::iota(waiting.begin(), waiting.end(), 0);
  std::vector<bool> gone(coarsened.groups, false);
  int left = coarsened.groups;
  while (!waiting.empty()) {
    const int g = waiting.back();
    waiting.pop_back();
    if (gone[g] || around[g].size() > 2) continue;
    gone[g] = true;
    --left;
    const std::vector<int> ring(around[g].begin(), around[g].end());
    for (int a : ring) {
      around[a].erase(g);
      for (int b : ring)
        if (a != b) around[a].insert(b);
      waiting.push_back(a);
    }
  }
  return left;
}

}  // namespace

GroupOrder group_order(const Coarsened& coarsened, size_t tensors, const Watch& watch) {
  EliminationGame game = game_of(coarsened.network);
  std::vector<bool> gone(coarsened.network.variables(), false);
  GroupOrder out;
  auto eliminate = [&](int c) {
    game.eliminate(c);
    gone[c] = true;
    out.order.push_back(c);
  };
  const int classes = coarsened.network.variables();
  std::vector<std::vector<int>> left(coarsened.groups);  // classes by group
  for (int c = 0; c < classes; ++c) {
    const bool ops_only = coarsened.members[c].front() >= static_cast<int>(tensors);
    if (ops_only && game.table_bits(c) <= std::log2(static_cast<double>(kOpTable))) eliminate(c);
  }
  for (int c = 0; c < classes; ++c)
    if (!gone[c]) left[coarsened.group[c]].push_back(c);
  auto table_around = [&](int g) {
    std::set<int> variables;
    for (int c : left[g])
      for (int u : game.neighbours(c))
        if (coarsened.group[u] != g) variables.insert(u);
    double bits = 0;
    for (int u : variables) bits += std::log2(static_cast<double>(coarsened.network.domain(u)));
    return std::pair(bits, g);
  };
  std::set<std::pair<double, int>> queue;  // by the table over its neighbours, then in the graph's order
  std::vector<std::pair<double, int>> known(coarsened.groups);
  for (int g = 0; g < coarsened.groups; ++g)
    if (!left[g].empty()) queue.insert(known[g] = table_around(g));
  out.entangled = entangled_groups(coarsened);
  while (!queue.empty()) {
    watch.poll("while groups of variables were put in order");
    const int g = queue.begin()->second;
    queue.erase(queue.begin());
    std::set<int> touched;
    for (int c : left[g])
      for (int u : game.neighbours(c))
        if (coarsened.group[u] != g) touched.insert(coarsened.group[u]);
    while (!left[g].empty()) {
      auto next = std::min_element(left[g].begin(), left[g].end(), [&](int a, int b) {
        return std::pair(game.table_bits(a), a) < std::pair(game.table_bits(b), b);
      });
      const int c = *next;
      left[g].erase(next);
      eliminate(c);
    }
    for (int h : touched) {
      queue.erase(known[h]);
      queue.insert(known[h] = table_around(h));
    }
  }
  return out;
}

}  // namespace partita
