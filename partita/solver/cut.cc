// Makes the parts of a network: splits edges across parts between their ends, adds prices, and finds equal parts.
#include "partita/solver/cut.h"

#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "partita/solver/dual.h"
#include "partita/solver/structural_order.h"

namespace partita::solver {

namespace {

using Messages = std::array<std::vector<int64_t>, 2>;  // [end][value]

// A network during the cut.
struct Cutting {
  Cutting(const Piece& of, const std::vector<int>& parts, const LiftedDual& with)
      : piece(of), n(of.network), part_of(parts), dual(with), costs(of.network.costs) {
    for (const Table& own : costs) added.emplace_back(own.size(), 0);
  }
  bool is_split(const Network::Edge& e) const { return e.variables.size() == 2 && crosses_parts(e, part_of); }

  const Piece& piece;
  const Network& n;
  const std::vector<int>& part_of;
  const LiftedDual& dual;
  std::vector<Table> costs;              // [variable]: with prices, and messages from other parts
  std::vector<std::vector<Wide>> added;  // [variable][value]: those, times the messages' scale
  Cut cut;
};

// ------------------------------------------------------------------ edges between parts

// The median of the finite messages; empty if there is none.
std::optional<double> median(std::vector<double> finite) {
  if (finite.empty()) return std::nullopt;
  const auto middle = finite.begin() + static_cast<std::ptrdiff_t>(finite.size() / 2);
  std::nth_element(finite.begin(), middle, finite.end());
  return *middle;
}

// The range of a table's costs that are not forbidden.
double range_of(const Table& table) {
  int64_t lowest = kForbidden, highest = -kForbidden;
  for (int64_t c : table)
    if (c < kForbidden) lowest = std::min(lowest, c), highest = std::max(highest, c);
  return static_cast<double>(std::max<int64_t>(highest - lowest, 0));
}

// The dual's messages at one end of an edge, each at most the costs' range away from their median. A dual of a folded
// network without some values says nothing of these, and of others because of that.
std::pair<int, std::vector<int64_t>> given_end(const Network::Edge& edge, int folded_edge,
                                               const std::array<size_t, 2>& sizes, const LiftedDual& dual) {
  std::array<std::vector<double>, 2> finite;
  for (int end : {0, 1})
    if (const double* from = dual.message(folded_edge, end))
      std::copy_if(from, from + sizes[end], std::back_inserter(finite[end]), [](double m) { return std::isfinite(m); });
  const int given = sizes[0] - finite[0].size() < sizes[1] - finite[1].size() ? 0 : 1;
  std::vector<int64_t> out(sizes[given], 0);
  if (const auto middle = median(std::move(finite[given]))) {
    const double range = range_of(*edge.table), *from = dual.message(folded_edge, given);
    for (size_t x = 0; x < out.size(); ++x)
      out[x] = std::llrint(std::isfinite(from[x]) ? std::clamp(from[x] - *middle, -range, range) : range);
  }
  return {given, std::move(out)};
}

// Splits an edge across two parts: all its cost goes to one end or the other, so that nothing is then less than 0. It
// begins with the dual's messages at one end.
Messages split_edge(const Network::Edge& edge, int folded_edge, const std::vector<Table>& costs,
                    const LiftedDual& dual) {
  const std::array<size_t, 2> sizes = {costs[edge.variables[0]].size(), costs[edge.variables[1]].size()};
  auto cost_at = [&](int end, size_t own, size_t other) {
    return (*edge.table)[end == 0 ? own * sizes[1] + other : other * sizes[1] + own];
  };
  auto [given, begin] = given_end(edge, folded_edge, sizes, dual);
  Messages out;
  out[given] = std::move(begin);
  // Each end in turn takes all that the other one leaves of the edge.
  for (int end : {1 - given, given}) {
    out[end].resize(sizes[end], 0);
    for (size_t x = 0; x < sizes[end]; ++x) {
      int64_t least = kForbidden;
      for (size_t y = 0; y < sizes[1 - end]; ++y)
        if (const int64_t cost = cost_at(end, x, y); cost < kForbidden) least = std::min(least, cost - out[1 - end][y]);
      out[end][x] = least == kForbidden ? 0 : least;
    }
  }
  return out;
}

using Kind = std::tuple<const Table*, int, int>;  // an edge's table, its ends' classes

Kind kind_of(const Network::Edge& e, const std::vector<int>& alike) {
  return {e.table.get(), alike[e.variables[0]], alike[e.variables[1]]};
}

std::pair<int, int> ends_of(const Network::Edge& e) { return std::minmax(e.variables[0], e.variables[1]); }

// Splits edges across parts by kind, by the messages that most edges of a kind have. Edges over more than two variables
// are not split; they cost their least.
std::map<Kind, Messages> split_kinds(Cutting& c, Wide& least) {
  std::map<Kind, std::map<int, int>> folded;  // the folded edges of a kind, and how many edges fold into each
  for (size_t e = 0; e < c.n.edges.size(); ++e) {
    const Network::Edge& edge = c.n.edges[e];
    if (!crosses_parts(edge, c.part_of)) continue;
    if (c.is_split(edge)) ++folded[kind_of(edge, c.piece.alike)][c.dual.folded().edge_of[c.piece.edges[e]]];
    else least += *std::min_element(edge.table->begin(), edge.table->end());
  }
  std::map<Kind, Messages> out;
  for (const Network::Edge& edge : c.n.edges) {
    if (!c.is_split(edge)) continue;
    const auto [messages, fresh] = out.try_emplace(kind_of(edge, c.piece.alike));
    if (!fresh) continue;
    const auto& counts = folded.at(messages->first);
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    messages->second = split_edge(edge, most->first, c.n.costs, c.dual);
  }
  return out;
}

// The largest sum of messages of edges over the same two variables; 1 at least.
double largest_sum(const Cutting& c, const std::map<Kind, Messages>& kinds) {
  std::map<std::pair<int, int>, double> sums;
  for (const Network::Edge& edge : c.n.edges) {
    if (!c.is_split(edge)) continue;
    const Messages& messages = kinds.at(kind_of(edge, c.piece.alike));
    sums[ends_of(edge)] += static_cast<double>(std::max(largest_absolute(messages[0]), largest_absolute(messages[1])));
  }
  double most = 1;
  for (const auto& [ends, sum] : sums) most = std::max(most, sum);
  return most;
}

void split_edges(Cutting& c) {
  Wide least = 0;  // of edges that are not split
  const std::map<Kind, Messages> kinds = split_kinds(c, least);
  Certificate::Leaf& leaf = c.cut.messages;
  leaf.scale = scale_for(largest_sum(c, kinds));
  c.cut.besides = leaf.scale * least;
  std::map<std::pair<int, int>, size_t> places;
  for (const Network::Edge& edge : c.n.edges) {
    if (!c.is_split(edge)) continue;
    const Messages& messages = kinds.at(kind_of(edge, c.piece.alike));
    const std::pair<int, int> ends = ends_of(edge);
    const auto [place, fresh] = places.try_emplace(ends, leaf.messages.size());
    if (fresh)
      leaf.messages.push_back({{ends.first, ends.second},
                               {Table(c.n.costs[ends.first].size(), 0), Table(c.n.costs[ends.second].size(), 0)}});
    for (int end : {0, 1}) {
      const int v = edge.variables[end];
      std::vector<int64_t>& to = leaf.messages[place->second].ends[v == ends.first ? 0 : 1];
      for (size_t x = 0; x < messages[end].size(); ++x) {
        to[x] += leaf.scale * messages[end][x];
        c.added[v][x] += Wide{leaf.scale} * messages[end][x];
      }
    }
  }
}

// ------------------------------------------------------------------ costs of variables

void add_prices(Cutting& c) {
  if (!c.n.limit) return;
  Certificate::Leaf& leaf = c.cut.messages;
  for (const auto& [time, price] : c.dual.priced_times()) {
    const Wide scaled = std::llround(price * static_cast<double>(leaf.scale));
    if (scaled <= 0) continue;
    leaf.multipliers.push_back({time, static_cast<int64_t>(scaled)});
    c.cut.besides -= scaled * *c.n.limit;
    for (const Network::Use& u : c.n.uses)
      if (u.lower <= time && time < u.upper)
        for (size_t x = 0; x < u.amounts.size(); ++x) c.added[u.variable][x] += scaled * u.amounts[x];
  }
}

// Adds all additions to costs, rounded down.
void add_up(Cutting& c) {
  for (size_t v = 0; v < c.costs.size(); ++v)
    for (size_t x = 0; x < c.costs[v].size(); ++x) {
      int64_t& cost = c.costs[v][x];
      if (cost >= kForbidden) continue;
      const Wide sum = cost + rounded_down(c.added[v][x], c.cut.messages.scale);
      if (sum >= kForbidden || sum <= -kForbidden) c.cut.fits = false;
      else cost = static_cast<int64_t>(sum);
    }
}

// ------------------------------------------------------------------ parts

// Makes each part a network of its own, its variables in the order of their looks.
std::vector<Part> all_parts(Cutting& c) {
  const std::vector<int> order = structural_order(c.n, c.costs, c.part_of);
  std::vector<int> number(c.n.costs.size());
  std::vector<Part> all(1 + *std::max_element(c.part_of.begin(), c.part_of.end()));
  for (int v : order) {
    Part& part = all[c.part_of[v]];
    if (part.variables.empty()) part.variables.emplace_back();
    part.variables[0].push_back(v);
    number[v] = part.network.variables();
    part.network.costs.push_back(std::move(c.costs[v]));
  }
  for (size_t e = 0; e < c.n.edges.size(); ++e) {
    const Network::Edge& edge = c.n.edges[e];
    if (crosses_parts(edge, c.part_of)) continue;
    Part& part = all[c.part_of[edge.variables[0]]];
    part.edges.push_back(c.piece.edges[e]);
    for (int& v : part.network.edges.emplace_back(edge).variables) v = number[v];
  }
  return all;
}

// Joins parts of the same costs and edges into copies of one.
void make_parts(Cutting& c) {
  using Key = std::pair<std::vector<Table>, std::vector<std::pair<std::vector<int>, const Table*>>>;
  std::map<Key, size_t> known;
  std::vector<Part>& parts = c.cut.parts;
  for (Part& part : all_parts(c)) {
    if (part.network.costs.empty()) continue;
    Key key{part.network.costs, {}};
    for (const Network::Edge& e : part.network.edges) key.second.push_back({e.variables, e.table.get()});
    std::sort(key.second.begin(), key.second.end());
    const auto [same, fresh] = known.try_emplace(std::move(key), parts.size());
    if (fresh) parts.push_back(std::move(part));
    else parts[same->second].variables.push_back(std::move(part.variables[0]));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.variables.size() > b.variables.size(); });
}

}  // namespace

Cut cut_into_parts(const Piece& piece, const std::vector<int>& part_of, const LiftedDual& dual) {
  Cutting c(piece, part_of, dual);
  split_edges(c);
  add_prices(c);
  add_up(c);
  make_parts(c);
  return std::move(c.cut);
}

}  // namespace partita::solver
