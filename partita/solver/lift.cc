#include "partita/solver/lift.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace partita::solver {

namespace {

bool over_two(const Network::Edge& e) { return e.variables.size() == 2 && e.variables[0] != e.variables[1]; }

std::vector<int> number_pairs(const Network& n) {
  std::vector<int> pairs;
  int count = 0;
  for (const Network::Edge& e : n.edges) pairs.push_back(over_two(e) ? count++ : -1);
  return pairs;
}

Model weighted(const Folding::Folded& folded, const std::vector<int>& pair_of) {
  Model m = compile(folded.network, Parallel::kApart);
  for (size_t e = 0; e < pair_of.size(); ++e)
    if (pair_of[e] >= 0) m.pairs[pair_of[e]].weight = static_cast<double>(folded.times[e]);
  return m;
}

}  // namespace

LiftedDual::LiftedDual(const Folding::Folded& folded)
    : folded_(folded), pair_of_(number_pairs(folded.network)), model_(weighted(folded, pair_of_)), dual_(model_) {}

void LiftedDual::run(int most, const std::function<bool()>& stop) {
  constexpr int kWindow = 4;  // passes
  constexpr double kNextToNothing = 1e-4;
  double bound = -kInfinity;
  for (int pass = 1; pass <= most && !stop(); ++pass) {
    const double now = dual_.pass();
    if (pass % kWindow != 0) continue;
    if (now - bound <= kNextToNothing * std::abs(now)) return;
    bound = now;
  }
}

Certificate::Leaf LiftedDual::leaf(const Network& network, const std::function<int(size_t)>& folded_edge, bool shares) const {
  Certificate::Leaf leaf;
  leaf.scale = scale_for(dual_.largest());
  std::map<std::pair<int, int>, size_t> messages;
  for (size_t e = 0; e < network.edges.size(); ++e) {
    const int folded = folded_edge(e), pair = pair_of_[folded];
    if (pair < 0 || !over_two(network.edges[e])) continue;
    const std::vector<int>& variables = network.edges[e].variables;
    const std::pair<int, int> ends = std::minmax(variables[0], variables[1]);
    const auto [it, fresh] = messages.try_emplace(ends, leaf.messages.size());
    if (fresh) leaf.messages.push_back({{ends.first, ends.second}, {std::vector<int64_t>(network.domain(ends.first), 0), std::vector<int64_t>(network.domain(ends.second), 0)}});
    const double factor = static_cast<double>(leaf.scale) / (shares ? static_cast<double>(folded_.times[folded]) : 1);
    for (size_t place : {0, 1}) {
      const double* from = dual_.message(pair, folded_.network.edges[folded].variables[place] == model_.pairs[pair].a ? 0 : 1);
      std::vector<int64_t>& to = leaf.messages[it->second].ends[variables[place] == ends.first ? 0 : 1];
      for (size_t x = 0; x < to.size(); ++x)
        if (std::isfinite(from[x])) to[x] += std::llrint(from[x] * factor);
    }
  }
  return leaf;
}

Certificate::Leaf LiftedDual::of_folded() const {
  return leaf(folded_.network, [](size_t e) { return static_cast<int>(e); }, false);
}

Certificate::Leaf LiftedDual::of_whole(const Network& whole) const {
  return leaf(whole, [&](size_t e) { return folded_.edge_of[e]; }, true);
}

}  // namespace partita::solver
