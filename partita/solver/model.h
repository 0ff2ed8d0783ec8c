// Defines a Network in the solver's form. Factors have at most two variables, and edges over one pair are merged. Equal
// tables are shared. Costs are doubles, infinite if forbidden: exact while sums stay below 2^53. Larger ones are only a
// guide: evaluate() has the costs of solutions, and the certificate's integers prove bounds.
//
// Example: variables of 2, 3 and 4 values, two edges over {0, 1} and one over {0, 1, 2} with 5 allowed tuples. The
// model has four variables: `offset` is {0, 2, 5, 9, 14}, the last one's values are the tuples. Its pairs are (0, 1),
// with the sum of the two tables, and (0, 3), (1, 3), (2, 3). These forbid a tuple beside values it lacks.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "partita/network/network.h"
#include "partita/solver/pair_table.h"

namespace partita::solver {

// In a leaf's messages: the value cannot be taken.
inline constexpr int64_t kNotThere = std::numeric_limits<int64_t>::min();

struct Model {
  struct Pair {
    int a = 0, b = 0;  // a < b; in pairs that stay apart, as their edge names them
    int table = 0;
    double times = 1;  // how often its table counts; messages are one pair's
  };
  struct Neighbour {
    int variable = 0, pair = 0;
    bool first = false;  // this end is the pair's a
  };
  struct Use {
    int lower = 0, upper = 0;      // half-open, in kept times; never empty
    std::vector<int64_t> amounts;  // per value
  };
  // A factor over three variables or more becomes a variable whose values are the factor's allowed tuples. A pair ties
  // it to each of its variables.
  struct Joint {
    std::vector<int> variables;  // ascending
    int joint = 0;               // the variable that stands for them
    std::vector<Assignment> tuples;
  };

  int originals = 0;          // the network's own variables come first
  std::vector<int> offset;    // [variable]: index of its first value; one more at the end
  std::vector<double> unary;  // [value index]
  std::vector<Pair> pairs;
  std::vector<std::shared_ptr<const PairTable>> tables;
  std::vector<std::vector<Neighbour>> neighbours;  // [variable], by the other variable's index
  std::vector<std::vector<Use>> uses;              // [variable]
  std::vector<int64_t> times;                      // [kept time]
  std::vector<Joint> joints;
  bool limited = false;  // some time can break the limit
  int64_t limit = 0;
  int64_t entries = 0;  // of all pairs, values by values: work is shared out by this
  int64_t sweep = 0;    // entries that half a pass reads: of their tables, in kinds, and values at their ends
  double headroom = 0;  // how much messages may grow later, over the scale

  int variables() const { return static_cast<int>(offset.size()) - 1; }
  int domain(int v) const { return offset[v + 1] - offset[v]; }
  const PairTable& table(int pair) const { return *tables[pairs[pair].table]; }
  PairView view(const Neighbour& n) const {
    return n.first ? by_row(table(n.pair)) : by_column(table(n.pair));
  }  // from the end that has this neighbour
  double pair_cost(const Neighbour& n, int own, int other) const { return view(n).at(own, other); }
  int64_t sweep_entries(const Pair& p) const {
    return static_cast<int64_t>(tables[p.table]->rows.count) * tables[p.table]->columns.count + domain(p.a) +
           domain(p.b);
  }
};

// Pair tables of tables, for models of networks that share them. The tables must stay.
using PairTables = std::map<std::pair<const Table*, int>, std::shared_ptr<const PairTable>>;  // by table and its rows

// Compiles the network; parallel edges become one pair. `made`: some of the network's tables.
Model compile(const Network& network, const PairTables* made = nullptr);
// Compiles the network; parallel edges stay apart. Pairs are the edges over two variables, in their order, and count as
// often as their edge does.
Model compile_apart(const Network& network, const std::vector<int64_t>& times, PairTables& known);
double count_table_entries(const Network& network);  // of all edges' tables, each as often as it occurs
Wide largest_total_cost(const Network& network);     // no solution costs more
int64_t largest_absolute(const Table& table);  // the largest absolute cost that is not forbidden; kForbidden at most
// The times at which the limit can be broken, without those that another one dominates.
std::vector<int64_t> kept_times(const Network& network);

// Sums up the use at each kept time; amount(variable, use) is one use's amount.
template <typename Amount>
std::vector<double> use_by_time(const Model& m, const Amount& amount) {
  std::vector<double> load(m.times.size() + 1, 0);
  for (int v = 0; v < m.variables(); ++v)
    for (const Model::Use& u : m.uses[v]) {
      const double used = amount(v, u);
      load[u.lower] += used, load[u.upper] -= used;
    }
  std::partial_sum(load.begin(), load.end(), load.begin());
  load.pop_back();
  return load;
}

// The allowed values of all variables, by value index.
using Alive = std::vector<char>;
int64_t sweep_entries(const Model& model, const Alive& alive);  // as Model::sweep, for alive values
// Puts the neighbour's values without a partner among v's alive values into `lost`; values that are not alive are
// skipped. Returns how many have a partner.
int collect_without_partner(const Model& model, int v, const Model::Neighbour& neighbour, const Alive& alive,
                            std::vector<int>& lost);

// Leaves out values that no solution within `alive` can take. These are forbidden values, values without a partner in
// some factor, and values that break the limit even beside the smallest other uses. Only variables in `changed` have
// lost values since the last call; if it is empty, any may have. False if a variable has no value left.
bool propagate(const Model& model, Alive& alive, std::vector<int> changed = {});

}  // namespace partita::solver
