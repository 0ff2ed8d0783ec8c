// Finds the equal parts of a network: the variables that each of them grows from, and those that join it.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "partita/solver/cut.h"
#include "partita/solver/parts.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

using Classes = std::vector<std::vector<int>>;  // [class]: its variables

struct Neighbour {
  int variable = 0;
  size_t kind = 0;  // of the edge: its table, and which end
};
using Beside = std::vector<std::vector<Neighbour>>;  // [variable]

// Searches breadth first from several variables at once: each variable falls to the nearest of them. Among equally near
// ones, the edge of the earlier kind decides, so that variables that look alike fall alike.
std::vector<int> nearest(const std::vector<int>& to, const Beside& beside, const std::vector<char>& passable) {
  const auto none = static_cast<int>(to.size());
  std::vector<int> part(beside.size(), none), level = to;
  for (int k = 0; k < none; ++k) part[to[k]] = k;
  while (!level.empty()) {
    std::vector<std::tuple<int, size_t, int>> reached;  // variable, the edge's kind, part
    for (int v : level)
      for (const Neighbour& w : beside[v])
        if (passable[w.variable] && part[w.variable] == none) reached.push_back({w.variable, w.kind, part[v]});
    std::sort(reached.begin(), reached.end());
    level.clear();
    for (const auto& [w, kind, from] : reached)
      if (part[w] == none) part[w] = from, level.push_back(w);
  }
  return part;
}

double largest_of(const std::vector<int>& part_of) {
  std::vector<int> sizes(part_of.size() + 1, 0);
  for (int part : part_of) ++sizes[part];
  return *std::max_element(sizes.begin(), sizes.end());
}

Beside beside_of(const Network& network) {
  Beside beside(network.variables());
  std::map<const Table*, size_t> tables;  // numbered in order of appearance
  for (const Network::Edge& e : network.edges) {
    const size_t table = tables.try_emplace(e.table.get(), tables.size()).first->second, ends = e.variables.size();
    for (size_t from = 0; from < ends; ++from)
      for (size_t to = 0; to < ends; ++to)
        if (e.variables[from] != e.variables[to])
          beside[e.variables[from]].push_back({e.variables[to], (table * ends + from) * ends + to});
  }
  return beside;
}

// How many copies most variables have, among classes of some; 0 if there are none.
size_t usual_copies(const Classes& classes) {
  std::map<size_t, size_t> by_copies;  // number of copies -> number of variables
  for (const auto& members : classes)
    if (members.size() >= kTuning.parts.least_copies) by_copies[members.size()] += members.size();
  if (by_copies.empty()) return 0;
  return std::max_element(by_copies.begin(), by_copies.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

double entries_across(const Network& network, const std::vector<int>& part_of) {
  double across = 0;
  for (const Network::Edge& e : network.edges)
    if (crosses_parts(e, part_of)) across += static_cast<double>(e.table->size());
  return across;
}

}  // namespace

// Parts grow from the variables of one class, of which there are as many as of most. Among all such classes the one
// that leaves the least across is taken.
std::vector<int> parts_of(const Network& network, const std::vector<int>& alike, double most_across, double largest) {
  const Tuning::Parts& t = kTuning.parts;
  const Beside beside = beside_of(network);
  Classes classes(1 + *std::max_element(alike.begin(), alike.end()));
  for (int v = 0; v < network.variables(); ++v) classes[alike[v]].push_back(v);
  const size_t copies = usual_copies(classes);
  if (copies == 0) return {};
  std::vector<char> passable;
  for (int v = 0; v < network.variables(); ++v)
    passable.push_back(classes[alike[v]].size() >= t.least_copies || beside[v].size() <= t.very_many);
  std::vector<const std::vector<int>*> seeds;
  for (const auto& members : classes)
    if (members.size() == copies) seeds.push_back(&members);
  std::vector<int> best;
  double least = most_across * count_table_entries(network);
  for (size_t s = 0; s < seeds.size(); s += std::max<size_t>(1, seeds.size() / t.seeds)) {
    std::vector<int> part_of = nearest(*seeds[s], beside, passable);
    const double across = entries_across(network, part_of);
    if (across < least && !(largest_of(part_of) > largest * network.variables()))
      best = std::move(part_of), least = across;
  }
  return best;
}

}  // namespace partita::solver
