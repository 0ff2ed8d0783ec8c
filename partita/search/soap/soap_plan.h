// Makes plans of the SOAP space, for its searches: finds the units that a move changes together, and the plan of one
// configuration each.
//
// A unit is a forward op with its followers. These are its backward ops, and the updates of the weights that it is the
// first to read. Forward ops that only copy, select or compute element by element follow the unit of their largest
// operand, the first of equal ones. All ops of an unrolled cell at one time step are one unit, led by the first that
// reads a weight. An op of weights and constants alone belongs to the unit that reads it first.
//
// Worked example: y = relu(linear(x, w)), z = linear(y, v) and a loss are three units. The first has linear, relu, both
// backward ops and the update of w. Its leader linear is split along its samples n and its outputs o. The degrees are
// n: 2, o: 2 on the devices [4, 1, 2, 7]. Then relu and its gradient are split along their own indices for the same
// axes of y. The gradient of w sums over n, so that it is partial over {4, 2} and {1, 7}. w is kept split along o. Its
// update, which has no samples, is the same on both devices of such a pair.
#pragma once
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "partita/base/watch.h"
#include "partita/plan/constraints.h"
#include "partita/plan/plan.h"
#include "partita/plan/resolve.h"
#include "partita/search/soap/op_configurations.h"

namespace partita {

struct SoapUnit {
  OpId leader;
  std::vector<int> indices;               // of the leader's formula: those along which the unit may be split
  std::vector<SoapDimension> dimensions;  // of these
  std::vector<OpId> ops;                  // in the graph's order, the leader among them
  std::vector<std::vector<int>> follows;  // [op][index]: the index of its own that it splits with it; -1: none
  // By index, if it may be split into equal shards of another extent than its own: SoapSet's `extents`.
  std::vector<std::vector<int64_t>> extents = {};
};

// Puts every op in one unit; units are in the order of their first forward ops. An op splits its indices along the same
// axes of the same tensors, where gradients count as the tensors they belong to. An index that some op of an unrolled
// cell does not have (its gates) is not among the cell's indices.
std::vector<SoapUnit> soap_units(const Graph& graph);
// Returns each op's unit, by OpId.
std::vector<int> units_of_ops(const Graph& graph, const std::vector<SoapUnit>& units);

// Returns the set of the unit's configurations, on these devices in this order.
SoapSet soap_set(const Graph& graph, const SoapUnit& unit, const std::vector<DeviceId>& devices,
                 const AllowedSoapDimensions& dimensions);

// Derives the choices of a unit's ops in a configuration. The configuration has degrees of the unit's indices, each at
// most its extent, on any distinct devices in any order.
//
// An op that has no index for one of the unit's does the same at every position along it. Sums of gradients are the
// exception: their terms stay partial there. So a weight that several ops read is synchronised once, when its gradients
// are added up. If an op's splits do not exist together, or it has too few values for them, it does without the last
// ones.
class UnitChoices {
 public:
  // Derivations go into the given memory, or into its own.
  explicit UnitChoices(const Graph& graph, DerivationCache* derivations = nullptr);
  std::vector<OpChoice> of(const SoapUnit& unit, const SoapConfiguration& configuration);  // one an op of the unit

 private:
  // `indices`: by mesh axis the index that the op splits there; -1: none.
  const std::vector<tdl::AxisStrategy>& strategies(OpId id, const std::vector<int>& mesh,
                                                   const std::vector<int>& indices);
  tdl::AxisStrategy strategy(const Op& op, int p, int index, bool sum);
  bool is_sum_of_gradients(const Op& op) const;

  const Graph& graph_;
  DerivationCache own_derivations_;
  DerivationCache& derivations_;
  std::vector<TensorId> gradient_;
  std::map<std::pair<const tdl::Bound*, int>, std::vector<tdl::AxisStrategy>> allowed_;
  std::map<std::tuple<const tdl::Bound*, std::vector<int>, std::vector<int>, bool>, std::vector<tdl::AxisStrategy>>
      known_;
};

// Makes the plan of one configuration for each unit. Pins are kept. A tensor that no op makes is kept as its first
// reader needs it. Throws if the watch ends.
Plan soap_plan(const Graph& graph, const Cluster& cluster, const std::vector<SoapUnit>& units,
               const std::vector<SoapConfiguration>& configurations, std::string_view search,
               const Constraints& constraints = {}, const Watch& watch = {});

}  // namespace partita
