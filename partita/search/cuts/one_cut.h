// Builds one cut of the devices as a cost network. It has the choices of every op and every tensor on it, after the
// cuts so far, and the bytes that these move. For every search that cuts all devices into equal parts, in one step or
// in several.
//
// Worked example: y[i, j] = sum(k) x[i, k] * w[k, j], each tensor 4x4 float32, the first cut into two. Variables: x, w
// and y, each with the tilings {0, 1, kWhole}, and the product with {i, j, k}. The pair (w, product) costs 0 at
// (kWhole, i), (p-1) |T| = 64 bytes at (0, i), which gathers w, and 0 at (0, k). The unary cost of x at kWhole is {0
// moved, 128 stored}, at 0 {0, 64}.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "partita/plan/resolve.h"
#include "partita/search/cuts/elimination.h"
#include "partita/search/search.h"

namespace partita {

// A tensor's tiling on one mesh axis: split on one of its axes, each counted as often as it has radices
// (factored_radices), or whole.
using Tiling = int;
constexpr Tiling kWhole = -1;

// The choices that a search offers a cut.
struct CutSpace {
  std::string search;  // as plans name it, with its options
  // Tells whether an op is offered one of its strategies that split indices. If none is left, the op is replicated.
  std::function<bool(OpId, const tdl::AxisStrategy&)> offers;
  bool whole = true;      // a tensor may be whole on a cut that could split it
  bool unwanted = false;  // a tensor may be split although no op that reads or writes it is: it can only cost more
};

// The choices so far; one entry a mesh axis, outermost first.
struct CutState {
  std::vector<int> extents;
  std::vector<std::vector<tdl::AxisStrategy>> strategies;  // by op
  std::vector<std::vector<Tiling>> tilings;                // by tensor
  std::vector<int64_t> moved;                              // one entry a cut: bytes, all groups together
};

// One strategy of an op on the axes of a cut: the layouts that the op then has on all cuts so far.
struct Aligned {
  std::vector<tdl::AxisStrategy> strategy;  // one an axis of the cut
  OpLayouts layouts;
  int64_t inner_cost = 0;  // bytes that its inner steps move beyond those of the cuts before
  // The place at which an axis of the cut splits a layout: a stored axis, and the radix of that axis in the layout.
  // axis -1: nowhere, also if the shard is partial.
  struct SplitAt {
    int axis = -1;
    size_t digit = 0;
  };
  std::vector<std::vector<SplitAt>> operands, results;  // [slot][axis of the cut]
};

// An op as a cut sees it. Equal ops share it.
struct OpView {
  OpLayouts before;  // on the cuts before this one: its own ranges
  std::vector<Aligned> aligned;
};

struct OneCut {
  std::vector<int> parts;  // the extents of its axes
  // Variables: the tensors' tilings, by TensorId, then the ops' strategies, by OpId. Costs: bytes moved by all groups
  // beyond the cuts before, then bytes stored.
  CostNetwork network;
  std::vector<std::vector<std::vector<Tiling>>> tilings;  // [tensor][value]: one an axis of the cut
  std::vector<std::shared_ptr<const OpView>> ops;
};

// The cuts of one problem. Each sees each op's own ranges and each tensor's kept tile. A conversion in a cut costs the
// bytes that it moves, counted from the boxes, beyond those of the cuts before. (SoyBean section 4.2.1; Tofu section
// 5.2: values fetched before are inputs of the next step.) Pins are part of every cut. Not thread-safe.
class Cuts {
 public:
  // The mesh has these extents, over all devices, slowest link first.
  Cuts(const Problem& problem, CutSpace space, std::vector<int> extents, const Budget& budget = {});

  CutState start() const;
  // Makes the cut along the mesh's next `axes` axes at once. Among choices that differ only in the order of axes of
  // equal extents, only the sorted one is there. This is a step of the budget. Before the last cut there is no solution
  // to return: throws when the budget is spent.
  OneCut next(const CutState& state, int axes = 1);
  CutState after(const CutState& state, const OneCut& cut, const std::vector<int>& values) const;
  // Makes the plan after the last cut; paper_cost is the bytes of all cuts. Sums over micro-batches stay partial if it
  // is cheaper to add them up once a step.
  Plan plan(const CutState& state) const;

  void poll() const;  // throws if the budget has ended
  const Watch& watch() const { return watch_; }
  const Graph& graph() const { return graph_; }
  const Mesh& mesh() const { return mesh_; }
  const Constraints& constraints() const { return problem_.constraints; }
  // Returns the tensor that has the variable: a replaced tensor and its new value are kept alike, under the old one.
  TensorId keeper_of(TensorId id) const;
  // Returns the tiling of a tensor that an op's strategy needs or leaves it in, on one axis of the cut.
  Tiling tiling_of(TensorId id, const Layout& layout, const Aligned::SplitAt& split) const;

 private:
  struct Tiles {  // a tensor's possible layouts on one cut; equal tensors share them
    Layout before;
    std::vector<Layout> layouts;
  };
  using Choice = std::vector<tdl::AxisStrategy>;
  using PairCosts = std::vector<Cost>;

  std::shared_ptr<const OpView> view(OpId id, const CutState& state, const std::vector<int>& parts);
  std::shared_ptr<const OpView> pinned_view(OpId id, const CutState& state, const std::vector<int>& parts);
  std::shared_ptr<const OpView> view_of(OpId id, const CutState& state, const std::vector<int>& parts,
                                        const std::vector<Choice>& choices);
  void add_aligned(const Op& op, const CutState& state, const std::vector<int>& parts, const tdl::Derived& before,
                   const Choice& choice, OpView& v);
  std::vector<std::vector<Tiling>> domain(TensorId id, const CutState& state, const OneCut& cut) const;
  std::vector<Tiling> pinned_tilings(TensorId id, size_t first_axis, size_t axes) const;
  std::vector<Tiling> wanted_tilings(TensorId id, const OneCut& cut) const;
  std::vector<std::vector<Tiling>> tilings_of(TensorId id, const CutState& state, const std::vector<int>& parts,
                                              const std::vector<Tiling>& values) const;
  std::shared_ptr<const Tiles> tiles(TensorId id, const CutState& state, const OneCut& cut);
  const PairCosts& pair_costs(const std::shared_ptr<const Tiles>& tiles, const std::shared_ptr<const OpView>& view,
                              size_t slot, bool result, int64_t element);
  // The bytes in a step of an element of an op's inner steps, and of a tensor's conversion from its producer or for a
  // reader. It counts once for each time that they are made.
  int64_t inner_bytes(const Op& op) const;
  int64_t bytes_a_step(TensorId id, bool result) const;
  void leave_sums(Plan& plan) const;
  int64_t stored(TensorId id, const CutState& state, const std::vector<int>& parts,
                 const std::vector<Tiling>& tilings) const;
  int64_t extent_of(TensorId id, Tiling tiling) const;
  Sbp sbp_of(TensorId id, Tiling tiling) const;
  Mesh mesh_of(const std::vector<int>& extents) const;
  Layout kept_layout(TensorId id, const Mesh& mesh, const std::vector<Tiling>& tilings) const;

  const Graph& graph_;
  const Problem& problem_;
  CutSpace space_;
  std::string name_;  // of the search, without its options
  const Budget budget_;
  const Watch watch_;
  int64_t steps_ = 0;  // of the budget, so far
  Mesh mesh_;
  std::vector<std::vector<Reader>> read_by_;
  std::vector<std::vector<Shape>> radices_;  // by tensor, per stored axis: the radices that a tiling may split
  DerivationCache derivations_;
  Converter converter_;
  std::map<std::pair<const tdl::Bound*, int>, std::vector<tdl::AxisStrategy>> strategies_;
  std::map<std::tuple<const tdl::Bound*, Choice, std::vector<int>, std::vector<int>, std::vector<Choice>, int64_t>,
           std::shared_ptr<const OpView>>
      views_;
  std::map<std::tuple<std::vector<Shape>, std::vector<int>, std::vector<int>, std::vector<Tiling>,
                      std::vector<std::vector<Tiling>>>,
           std::shared_ptr<const Tiles>>
      tiles_;
  // Keys hold the objects that they point to.
  std::map<std::tuple<std::shared_ptr<const Tiles>, std::shared_ptr<const OpView>, size_t, bool, int64_t>, PairCosts>
      pair_costs_;
};

// Returns the number of groups of devices that the cuts so far have made.
int groups_of(const std::vector<int>& extents);

}  // namespace partita
