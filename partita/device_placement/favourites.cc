// Writes the linear program of favourite children and rounds the solver's answer.
#include "partita/device_placement/favourites.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

#include "partita/base/error.h"
#include "partita/device_placement/cbc.h"
#include "partita/device_placement/program.h"

namespace partita {

namespace {

constexpr double kFavourite = 0.1;                  // values below are rounded to 0
constexpr double kLargest = 1000;                   // of the numbers in the solver's program
constexpr double kNotAtAll = 0.5 / kLargest / 1e3;  // a gap smaller than any between two vertices of the program

struct Edge {
  int from = 0, to = 0;
  int64_t cost = 0;      // to move its values on the fastest route
  bool chooses = false;  // whether it may be spared
};

std::vector<Edge> edges_of(const PlacementProblem& p) {
  std::map<std::pair<int, int>, Edge> edges;
  for (const PlacedValue& value : p.values)
    for (int reader : value.readers) {
      Edge& edge = edges[{value.producer, reader}];
      edge.from = value.producer, edge.to = reader;
      const PlacedOp &from = p.ops[static_cast<size_t>(edge.from)], &to = p.ops[static_cast<size_t>(edge.to)];
      if (!value.moves() || (from.group >= 0 && from.group == to.group)) continue;
      const int64_t cost = least_crossing_ns(p, from, to, value.bytes);
      edge.cost += cost;
      edge.chooses = cost > 0 && share_a_device(from, to);
    }
  std::vector<Edge> found;
  for (const auto& [ends, edge] : edges) found.push_back(edge);
  return found;
}

// Columns: w, s by operation, x by edge that chooses.
class LinearProgram {
 public:
  LinearProgram(const PlacementProblem& problem, const std::vector<Edge>& edges) : edges_(edges) {
    double horizon = 0;
    for (const PlacedOp& op : problem.ops) horizon += static_cast<double>(least_ns(op));
    for (const Edge& e : edges) horizon += static_cast<double>(e.cost);
    lp_.unit_ns = std::max(1.0, horizon / kLargest);
    const double most = horizon / lp_.unit_ns;
    add_column("C", most);
    for (size_t o = 0; o < problem.ops.size(); ++o) add_column(fmt::format("S_{}", o), most);
    for (size_t o = 0; o < problem.ops.size(); ++o)
      add_row(in_units(least_ns(problem.ops[o])), {{0, 1}, {start(static_cast<int>(o)), -1}});
    std::vector<std::vector<ProgramTerm>> to_children(problem.ops.size()), to_parents(problem.ops.size());
    for (const Edge& e : edges) {
      const double length = in_units(least_ns(problem.ops[static_cast<size_t>(e.from)])), cost = in_units(e.cost);
      std::vector<ProgramTerm> terms = {{start(e.to), 1}, {start(e.from), -1}};
      paid_.push_back(e.chooses ? static_cast<int>(lp_.columns.size()) : -1);
      if (e.chooses) {
        terms.push_back({paid_.back(), -cost});
        to_children[static_cast<size_t>(e.from)].push_back({paid_.back(), 1});
        to_parents[static_cast<size_t>(e.to)].push_back({paid_.back(), 1});
        add_column(fmt::format("x_{}_{}", e.from, e.to), 1);
      }
      add_row(e.chooses ? length : length + cost, terms);
    }
    for (const auto* side : {&to_children, &to_parents})
      for (const std::vector<ProgramTerm>& terms : *side)
        if (terms.size() > 1) add_row(static_cast<double>(terms.size()) - 1, terms);
  }
  const PlacementProgram& program() const { return lp_; }

  FavouriteChildren rounded(const std::vector<double>& values, size_t ops) const {
    FavouriteChildren found;
    found.child.assign(ops, -1);
    found.relaxed_ns = values[0] * lp_.unit_ns;
    for (size_t e = 0; e < edges_.size(); ++e)
      if (paid_[e] >= 0 && values[static_cast<size_t>(paid_[e])] < kFavourite)
        found.child[static_cast<size_t>(edges_[e].from)] = edges_[e].to;
    return found;
  }

 private:
  static int start(int op) { return op + 1; }
  double in_units(int64_t ns) const { return static_cast<double>(ns) / lp_.unit_ns; }
  void add_column(std::string name, double upper) { lp_.columns.push_back({std::move(name), 0, upper, false}); }
  void add_row(double lower, const std::vector<ProgramTerm>& terms) {
    const size_t first = lp_.terms.size();
    lp_.terms.insert(lp_.terms.end(), terms.begin(), terms.end());
    lp_.rows.push_back({0, lower, std::numeric_limits<double>::infinity(), first, lp_.terms.size()});
  }

  const std::vector<Edge>& edges_;
  std::vector<int> paid_;  // by edge: its column; -1: it has no choice
  PlacementProgram lp_;
};

}  // namespace

FavouriteChildren favourite_children(const PlacementProblem& problem, double seconds, const Watch& watch) {
  if (problem.ops.empty()) return {};
  const std::string cbc = find_cbc(std::getenv("PATH"));
  const std::vector<Edge> edges = edges_of(problem);
  const LinearProgram lp(problem, edges);
  const bool hurried = watch.left().value_or(seconds) < seconds;
  const CbcAnswer answer = run_cbc(cbc, lp.program(), {}, kNotAtAll, seconds, watch);
  if (answer.values.empty() && (hurried || watch.stopped()))
    watch.give_up("while the linear program of favourite children was solved");
  if (answer.values.empty())
    fail("{} did not solve the linear program of favourite children, {} rows, in {} s", cbc, lp.program().rows.size(),
         seconds);
  return lp.rounded(answer.values, problem.ops.size());
}

}  // namespace partita
