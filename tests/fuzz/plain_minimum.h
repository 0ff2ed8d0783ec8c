// Finds the least cost of all plans on a mesh of one axis the slow obvious way, for tests. Costs come from layouts and
// conversions, tensor by tensor, as docs/ARCHITECTURE.md section 4 defines them; minima from eliminating one choice
// after another. It shares no code with a search.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "partita/plan/plan.h"
#include "partita/sharding/boxing.h"

namespace partita {

constexpr int64_t kNever = int64_t{1} << 60;

// A function of a few variables, row-major, the last of `scope` fastest.
struct Factor {
  std::vector<int> scope;  // ascending
  std::vector<int64_t> cost;
};
// Empty if a table would have more entries.
std::optional<int64_t> plain_minimum(const std::vector<int>& domains, std::vector<Factor> factors, int64_t max_table);
// Calls visit(values) for all values of the variables `scope`.
void for_each_value(const std::vector<int>& domains, const std::vector<int>& scope,
                    const std::function<void(const std::vector<int>&)>& visit);

// Layouts as numbers, equal placements as one, and the bytes that conversions between them move.
class LayoutCosts {
 public:
  explicit LayoutCosts(const Cluster& cluster) : cluster_(cluster) {}
  int number(const Layout& layout);
  int64_t bytes(int from, int to, int64_t element_bytes);

 private:
  const Cluster& cluster_;
  std::vector<Layout> layouts_;
  std::map<std::tuple<int, int, int64_t>, int64_t> known_;
};

// Counts the bytes of plans that split every op over all devices along one mesh axis.
class OneAxisPlans {
 public:
  OneAxisPlans(const Graph& graph, const Cluster& cluster);

  // By op: every strategy that divides its work, and those of element-wise ops that pass partial values on; `replicate`
  // if nothing divides it.
  const std::vector<std::vector<tdl::AxisStrategy>>& strategies() const { return strategies_; }
  std::vector<int> domains() const;
  // The ops on which a tensor's bytes depend: its writer, its readers, and those of the value that replaces it, if they
  // have it in several layouts. Ascending.
  const std::vector<int>& scope(TensorId id) const { return scopes_[id.index()]; }
  // Returns the bytes of a tensor that replaces none, and of its replacement, kept as is cheapest. `values`: by op.
  int64_t bytes(TensorId id, const std::vector<int>& values);
  int64_t bytes(OpId id, int value) const { return inner_bytes_[id.index()][value]; }  // inside the op
  int64_t bytes(const std::vector<int>& values);                                       // of all
  // The least of all plans, if the tables stay below this many entries.
  std::optional<int64_t> least(int64_t max_table);
  // The plan's strategies in `strategies()`; empty if one of its ops is elsewhere or does something else.
  std::optional<std::vector<int>> values_of(const Plan& plan) const;
  Plan plan(const std::vector<int>& values);  // of these strategies, tensors kept as is cheapest

 private:
  struct Use {
    int op = -1;
    size_t slot = 0;
  };
  bool add_states(TensorId id, std::vector<int>& sizes, std::vector<Factor>& factors);  // for `least`; false: too many
  std::pair<int64_t, int> best_home(TensorId id,
                                    const std::vector<int>& values);  // bytes, place in named_; -1: as it is made

  const Graph& graph_;
  Mesh mesh_;
  LayoutCosts costs_;
  std::vector<std::vector<tdl::AxisStrategy>> strategies_;
  std::vector<std::vector<int64_t>> inner_bytes_;
  std::vector<std::vector<std::vector<int>>> needs_, makes_;   // [op][value][slot]: numbers of layouts
  std::vector<std::vector<std::pair<Placement, int>>> named_;  // [tensor]: where it may be kept
  std::vector<std::vector<Use>> reads_;                        // [tensor]
  std::vector<Use> made_;                                      // [tensor]; op -1: by none
  std::vector<TensorId> replacement_;
  std::vector<std::vector<int>> scopes_;
};

}  // namespace partita
