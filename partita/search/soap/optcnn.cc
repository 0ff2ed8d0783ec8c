// Minimises the cost sum of units and pairs of units, by elimination.
#include "partita/search/soap/optcnn.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/search/cuts/elimination.h"
#include "partita/search/entry.h"
#include "partita/search/evaluate.h"
#include "partita/search/soap/initial_plans.h"
#include "partita/search/soap/op_order.h"

namespace partita {

namespace {

using Table = std::shared_ptr<const std::vector<int64_t>>;

Table transposed(const Table& table, size_t rows, size_t columns) {
  auto out = std::make_shared<std::vector<int64_t>>(table->size());
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) (*out)[c * rows + r] = (*table)[r * columns + c];
  return out;
}

// Units and the tables between them, while units are eliminated.
class Eliminator {
 public:
  Eliminator(const UnitCosts& costs, const Watch& watch) : watch_(watch), own_(costs.own), next_to_(costs.own.size()) {
    for (const UnitCosts::Pair& p : costs.pairs) put(p.a, p.b, p.ns);
  }

  void run(UnitValues& found) {
    for (int u = next(); u >= 0; u = next()) {
      watch_.poll("while units were eliminated");
      eliminate(u, found);
    }
    found.eliminated = static_cast<int>(gone_.size());
    found.left = static_cast<int>(own_.size() - gone_.size());
  }

  // The network of the units that are left, in their order.
  CostNetwork core(std::vector<int>& units) const {
    CostNetwork network;
    std::vector<int> number(own_.size(), -1);
    for (size_t u = 0; u < own_.size(); ++u) {
      if (done_.contains(static_cast<int>(u))) continue;
      number[u] = network.variables();
      units.push_back(static_cast<int>(u));
      network.unary.emplace_back();
      for (const int64_t ns : own_[u]) network.unary.back().push_back({ns, 0});
    }
    for (size_t u = 0; u < own_.size(); ++u)
      for (const auto& [v, table] : next_to_[u]) {
        if (static_cast<int>(u) > v || done_.contains(static_cast<int>(u))) continue;
        network.pairs.push_back({number[u], number[static_cast<size_t>(v)], {}});
        for (const int64_t ns : *table) network.pairs.back().cost.push_back({ns, 0});
      }
    return network;
  }

  // Gives eliminated units, last first, their best value beside those left after them.
  void trace_back(std::vector<int>& values) const {
    for (size_t i = gone_.size(); i-- > 0;) {
      const Gone& gone = gone_[i];
      std::vector<int64_t> sum = gone.own;
      for (const auto& [v, table] : gone.tables)
        for (size_t z = 0; z < sum.size(); ++z)
          sum[z] +=
              (*table)[z * own_[static_cast<size_t>(v)].size() + static_cast<size_t>(values[static_cast<size_t>(v)])];
      values[static_cast<size_t>(gone.unit)] = static_cast<int>(std::ranges::min_element(sum) - sum.begin());
    }
  }

 private:
  struct Gone {
    int unit;
    std::vector<int64_t> own;
    std::vector<std::pair<int, Table>> tables;  // [configuration of it][of the other]
  };

  // Adds a table, [of a][of b], to the one between them: edge elimination.
  void put(int a, int b, const Table& table) {
    Table& there = next_to_[static_cast<size_t>(a)][b];
    if (there) {
      auto sum = std::make_shared<std::vector<int64_t>>(*there);
      for (size_t i = 0; i < sum->size(); ++i) (*sum)[i] += (*table)[i];
      there = std::move(sum);
    } else {
      there = table;
    }
    next_to_[static_cast<size_t>(b)][a] =
        transposed(there, own_[static_cast<size_t>(a)].size(), own_[static_cast<size_t>(b)].size());
  }

  // The unit of at most two neighbours whose elimination takes least; the first of equal ones. -1: there is none.
  int next() const {
    int best = -1;
    size_t least = 0;
    for (size_t u = 0; u < own_.size(); ++u) {
      if (done_.contains(static_cast<int>(u)) || next_to_[u].size() > 2) continue;
      size_t entries = own_[u].size();
      for (const auto& [v, table] : next_to_[u]) entries *= own_[static_cast<size_t>(v)].size();
      if (best < 0 || entries < least) best = static_cast<int>(u), least = entries;
    }
    return best;
  }

  void eliminate(int u, UnitValues& found) {
    const size_t at = static_cast<size_t>(u);
    Gone gone{u, own_[at], {next_to_[at].begin(), next_to_[at].end()}};
    for (const auto& [v, table] : gone.tables) next_to_[static_cast<size_t>(v)].erase(u);
    next_to_[at].clear();
    if (gone.tables.size() == 1) {
      std::vector<int64_t>& into = own_[static_cast<size_t>(gone.tables[0].first)];
      const std::vector<int64_t>& table = *gone.tables[0].second;
      for (size_t y = 0; y < into.size(); ++y) {
        int64_t least = gone.own[0] + table[y];
        for (size_t z = 1; z < gone.own.size(); ++z) least = std::min(least, gone.own[z] + table[z * into.size() + y]);
        into[y] += least;
      }
      found.largest_table = std::max(found.largest_table, static_cast<int64_t>(into.size()));
    } else if (gone.tables.size() == 2) {
      const Table between = least_between(gone);
      found.largest_table = std::max(found.largest_table, static_cast<int64_t>(between->size()));
      put(gone.tables[0].first, gone.tables[1].first, between);
    }
    done_.insert(u);
    gone_.push_back(std::move(gone));
  }

  // For each two configurations of its neighbours, the least cost of the unit and its tables with them.
  Table least_between(const Gone& gone) const {
    const size_t xs = own_[static_cast<size_t>(gone.tables[0].first)].size(),
                 ys = own_[static_cast<size_t>(gone.tables[1].first)].size();
    const std::vector<int64_t>&to_x = *gone.tables[0].second, &to_y = *gone.tables[1].second;
    auto least = std::make_shared<std::vector<int64_t>>(xs * ys, std::numeric_limits<int64_t>::max());
    for (size_t z = 0; z < gone.own.size(); ++z)
      for (size_t x = 0; x < xs; ++x) {
        const int64_t beside = gone.own[z] + to_x[z * xs + x];
        int64_t* row = least->data() + x * ys;
        const int64_t* of_y = to_y.data() + z * ys;
        for (size_t y = 0; y < ys; ++y) row[y] = std::min(row[y], beside + of_y[y]);
      }
    return least;
  }

  const Watch& watch_;
  std::vector<std::vector<int64_t>> own_;
  std::vector<std::map<int, Table>> next_to_;  // [unit], by neighbour: [configuration of the unit][of the neighbour]
  std::set<int> done_;
  std::vector<Gone> gone_;
};

// Gives each unit in turn its best value beside the others, until none changes.
void descend(const UnitCosts& costs, std::vector<int>& values, const Watch& watch) {
  std::vector<std::vector<const UnitCosts::Pair*>> pairs(costs.own.size());
  for (const UnitCosts::Pair& p : costs.pairs)
    pairs[static_cast<size_t>(p.a)].push_back(&p), pairs[static_cast<size_t>(p.b)].push_back(&p);
  for (bool more = true; more && !watch.ended();) {
    more = false;
    for (size_t u = 0; u < costs.own.size(); ++u) {
      std::vector<int64_t> sum = costs.own[u];
      for (const UnitCosts::Pair* p : pairs[u]) {
        const size_t columns = costs.own[static_cast<size_t>(p->b)].size();
        const bool first = static_cast<size_t>(p->a) == u;
        const size_t other = static_cast<size_t>(values[static_cast<size_t>(first ? p->b : p->a)]);
        for (size_t x = 0; x < sum.size(); ++x) sum[x] += (*p->ns)[first ? x * columns + other : other * columns + x];
      }
      const auto least = std::ranges::min_element(sum);
      if (*least < sum[static_cast<size_t>(values[u])]) values[u] = static_cast<int>(least - sum.begin()), more = true;
    }
  }
}

void take(UnitValues& found, const UnitCosts& costs, std::vector<int> values) {
  const int64_t cost = costs.of(values);
  if (cost < found.cost) found.cost = cost, found.values = std::move(values);
}

}  // namespace

UnitValues least_values(const UnitCosts& costs, const std::vector<int>& from, const Watch& watch, int64_t max_table) {
  UnitValues found{.cost = costs.of(from), .values = from};
  try {
    Eliminator eliminator(costs, watch);
    eliminator.run(found);
    std::vector<int> units;
    const CostNetwork core = eliminator.core(units);
    auto traced = [&](const std::vector<int>& of_core) {
      std::vector<int> values(costs.own.size(), 0);
      for (size_t i = 0; i < units.size(); ++i) values[static_cast<size_t>(units[i])] = of_core[i];
      eliminator.trace_back(values);
      return values;
    };
    if (const auto solved = eliminate(core, small_table_order(core, watch), 1, max_table, watch)) {
      take(found, costs, traced(solved->solutions[0]));
      found.largest_table = std::max(found.largest_table, solved->largest_table);
      found.least = true;
      return found;
    }
    descend(costs, found.values, watch);
    found.cost = costs.of(found.values);
    take(found, costs, traced(eliminate_around(core, watch).solution));
    descend(costs, found.values, watch);
    found.cost = costs.of(found.values);
  } catch (const Error& error) {
    if (!is_end(error)) throw;
  }
  return found;
}

namespace {

// The first p of all devices: the space has no operation dimension.
constexpr AllowedSoapDimensions kDimensions{.operation = false};

// The problem's pins; and numbers that no op makes (the learning rate) on the first p devices. Kept with its first
// reader, such a number would tie all units to that one.
Constraints with_numbers_on(const Problem& problem, int64_t p) {
  Constraints constraints = problem.constraints;
  const Mesh all{{static_cast<int>(p)}, block_of(slowest_link_first(problem.cluster), p, 0)};
  for (size_t t = 0; t < problem.graph.tensors.size(); ++t) {
    const Tensor& tensor = problem.graph.tensors[t];
    if (!tensor.producer.valid() && volume(tensor.shape) == 1)
      constraints.kept.try_emplace(TensorId(t), Placement{all, {Sbp::broadcast()}, {}});
  }
  return constraints;
}

std::vector<int> values_of(const std::vector<std::vector<SoapConfiguration>>& configurations,
                           const std::vector<SoapConfiguration>& plan) {
  std::vector<int> values;
  for (size_t u = 0; u < plan.size(); ++u) {
    const auto found = std::ranges::find(configurations[u], plan[u]);
    ensure(found != configurations[u].end(), "data parallelism of unit {} is not in its set", u);
    values.push_back(static_cast<int>(found - configurations[u].begin()));
  }
  return values;
}

SearchResult search(const Problem& problem, const Budget& budget, Rng&) {
  const Graph& graph = problem.graph;
  const Watch whole = budget.watch(), watch = whole.share(kBeforeOrder);
  watch.poll("before units were tabulated");
  const std::vector<SoapUnit> units = soap_units(graph);
  std::vector<std::vector<SoapConfiguration>> configurations;
  size_t all = 0;
  for (const SoapUnit& unit : units) {
    const SoapSet set = soap_set(graph, unit, slowest_link_first(problem.cluster), kDimensions);
    std::vector<SoapConfiguration>& of_unit = configurations.emplace_back();
    for (int64_t i = 0; i < set.size(); ++i) of_unit.push_back(set.at(i));
    all += of_unit.size();
  }
  const UnitCosts costs = unit_costs(graph, problem.cluster, units, configurations,
                                     with_numbers_on(problem, problem.cluster.compute_count), watch, problem.tell);
  if (problem.tell) problem.tell("optcnn: elimination");
  const std::vector<SoapConfiguration> start = data_parallel_configurations(graph, problem.cluster, units);
  const UnitValues found = least_values(costs, values_of(configurations, start), watch);
  std::vector<SoapConfiguration> chosen;
  size_t most = 1;  // devices of a unit
  for (size_t u = 0; u < units.size(); ++u) {
    chosen.push_back(configurations[u][static_cast<size_t>(found.values[u])]);
    most = std::max(most, chosen.back().devices.size());
  }
  SearchResult result;
  result.plan =
      soap_plan(graph, problem.cluster, units, chosen, "optcnn", with_numbers_on(problem, static_cast<int64_t>(most)));
  result.plan->paper_cost = static_cast<double>(found.cost) / 1e3;
  result.counters = {{"units", static_cast<double>(units.size())},
                     {"configurations", static_cast<double>(all)},
                     {"eliminated_units", found.eliminated},
                     {"units_left", found.left},
                     {"largest_table", static_cast<double>(found.largest_table)}};
  result.notes.push_back(fmt::format("its own cost, all parts one after another: {:.6g} us; data parallel {:.6g} us",
                                     static_cast<double>(found.cost) / 1e3,
                                     static_cast<double>(costs.of(values_of(configurations, start))) / 1e3));
  if (!found.least)
    result.notes.push_back(
        fmt::format("{} units are left by node and edge elimination, and no least cost is proved: {}", found.left,
                    watch.ended() ? "the time limit passed" : "tables would be too large"));
  take_better_order(problem, whole, result);
  return result;
}

}  // namespace

SearchEntry optcnn_search() {
  return {.name = "optcnn",
          .source = "Jia et al. 2018 (OptCNN)",
          .summary =
              "least sum of compute, synchronisation and transfer times over FlexFlow's units, by node and edge "
              "elimination, on the first devices each; icml18 counts bytes, in Tofu's space",
          .search = search,
          .measure = Objective::kTime};
}

}  // namespace partita
