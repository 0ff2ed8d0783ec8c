// Settles the variables of one cut over all devices one by one.
#include "partita/search/cuts/greedy.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/search/cuts/tofu.h"

namespace partita {

namespace {

Cost at(const CostNetwork& network, const CostNetwork::Pair& pair, int v, int x, int y) {  // x of v, y of the other
  const int a = pair.a == v ? x : y, b = pair.a == v ? y : x;
  return pair.cost[static_cast<size_t>(a) * network.unary[pair.b].size() + static_cast<size_t>(b)];
}

}  // namespace

Settling::Settling(const CostNetwork& network)
    : network_(network), pairs_(network.variables()), around_(network.variables()), value_(network.variables(), -1) {
  for (const CostNetwork::Pair& p : network.pairs) {
    pairs_[p.a].push_back(&p), pairs_[p.b].push_back(&p);
    around_[p.a].push_back(p.b), around_[p.b].push_back(p.a);
  }
  for (std::vector<int>& around : around_) {
    std::sort(around.begin(), around.end());
    around.erase(std::unique(around.begin(), around.end()), around.end());
  }
}

void Settling::settle(int v, int value) {
  if (value_[v] < 0) value_[v] = value;
}

Cost Settling::cost(int v, int x) const {
  Cost sum = network_.unary[v][x];
  for (const CostNetwork::Pair* pair : pairs_[v]) {
    const int other = pair->a == v ? pair->b : pair->a;
    if (value_[other] >= 0) sum = sum + at(network_, *pair, v, x, value_[other]);
  }
  return sum;
}

void Settling::settle_best(int v) {
  if (value_[v] >= 0) return;
  int best = 0;
  Cost best_cost;
  for (int x = 0; x < network_.domain(v); ++x) {
    value_[v] = -1;
    Cost sum = cost(v, x);
    value_[v] = x;
    for (int u : around_[v]) {
      if (value_[u] >= 0) continue;
      Cost least = cost(u, 0);
      for (int y = 1; y < network_.domain(u); ++y) least = std::min(least, cost(u, y));
      sum = sum + least;
    }
    if (x == 0 || sum < best_cost) best = x, best_cost = sum;
  }
  value_[v] = best;
}

SearchResult one_step_greedily(const Problem& problem, const Budget& budget, const CutSpace& space,
                               const std::function<void(const Cuts&, Settling&)>& settle) {
  Cuts cuts(problem, space, one_step(problem.cluster), budget);
  SearchResult result;
  CutState state = cuts.start();
  if (!cuts.mesh().extents.empty()) {
    const OneCut cut = cuts.next(state);
    Settling settling(cut.network);
    settle(cuts, settling);
    state = cuts.after(state, cut, settling.values());
  }
  result.plan = cuts.plan(state);
  result.notes.push_back(fmt::format("total communication {:.6g} bytes", *result.plan->paper_cost));
  return result;
}

}  // namespace partita
