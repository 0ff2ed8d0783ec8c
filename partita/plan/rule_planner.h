// The planner that all rules share: a plan is built op by op in graph order, knowing where every tensor is so far.
//
// Example, data-parallel on 4 devices: choose(matmul, {{[b]}}) settles the product along samples. Its operand x, which
// nobody has read yet, is then kept S(0), its weight B, and its result is at home as S(0).
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "partita/graph/weight_products.h"
#include "partita/plan/axis_options.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"

namespace partita {

inline const tdl::AxisStrategy kReplicate{};

// A split over some mesh axes, of a tensor with these radices.
struct SplitOver {
  std::vector<Shape> radices;
  Sbp sbp;
  std::vector<int> mesh_axes;
};

// Pinned ops and tensors are as pinned, whatever the rule says. A clone (activation recomputation) does as its
// original. A tensor without a home is kept as its first reader wants it.
class RulePlanner {
 public:
  RulePlanner(const Graph& graph, const Cluster& cluster, const Constraints& constraints, Mesh mesh,
              const Watch& watch = {});

  // `axes`: per mesh axis the strategies that the rule allows. The combination is chosen that moves fewest bytes to
  // bring its operands and to put back what it replaces; of equal ones the first in lexicographic order. False: none
  // exists.
  bool try_choose(OpId id, const std::vector<std::vector<tdl::AxisStrategy>>& axes);
  void choose(OpId id, const std::vector<std::vector<tdl::AxisStrategy>>& axes);  // fails where none exists

  void place(OpId id, const OpChoice& choice);  // the one choice that the rule allows

  // The tensor will be read in this layout; its producer, if it is chosen later, prefers to make it so. The second form
  // takes the layout that an op has an operand in under a choice.
  void want(TensorId id, const Layout& layout) { wanted_.try_emplace(id, layout); }
  void want(OpId id, int operand, const OpChoice& choice);
  bool is_wanted(TensorId id) const { return wanted_.contains(id); }

  // Keeps a result split along `axis` if it came out partial there, or whole if the axis is too short. For a mesh of
  // one axis.
  void keep_partial_result(TensorId id, int axis);
  void keep_whole(TensorId id);  // on every device
  // Keeps a result on one mesh axis as this part of its home's radices, and on the others as it is; nothing happens
  // where it is pinned, or has no such part.
  void keep_along(TensorId id, int mesh_axis, const Part& part);
  void keep_whole(TensorId id, int mesh_axis);  // where it came out partial on this mesh axis
  // Keeps a result split so, and on the other mesh axes as it is.
  void keep_split(TensorId id, const SplitOver& split);
  // A tensor without a home will be kept as its first reader wants it, but split so.
  void split_when_kept(TensorId id, const SplitOver& split) { split_when_kept_.try_emplace(id, split); }
  // For a tensor without a home so far.
  void keep(TensorId id, const Placement& placement);

  Plan finish(std::string_view search);

  const Mesh& mesh() const { return mesh_; }
  const OpChoice& choice(OpId id) const { return plan_.ops[id.index()]; }  // of one that was chosen
  const Layout* kept_layout(TensorId id) const {
    return kept_layouts_[id.index()] ? &*kept_layouts_[id.index()] : nullptr;
  }

 private:
  int64_t cost(const Op& op, const OpChoice& choice);
  Placement kept_layout_for(const Op& op, TensorId id, const Layout& need) const;
  void settle(OpId id, const OpChoice& choice);
  void repeat(OpId clone);

  const Graph& graph_;
  const Cluster& cluster_;
  const Constraints& constraints_;
  Mesh mesh_;
  const Watch watch_;
  Plan plan_;
  std::vector<std::optional<Layout>> kept_layouts_;
  std::vector<int> readers_;  // by tensor: how many operands it is
  std::map<TensorId, Layout> wanted_;
  std::map<TensorId, SplitOver> split_when_kept_;
  DerivationCache cache_;
};

// How a tensor without a home is kept for its first reader: as that reads it, or whole on the reader's mesh where it
// cannot be kept so. `alone`: nobody else reads it.
Placement kept_as_read(const Graph& graph, const Op& op, TensorId id, const Layout& need, bool alone);

// One axis over all devices, the slowest links cut first.
Mesh all_devices(const Cluster& cluster);
// Infeasible (exit 4) where an input has fewer samples than `parts`.
void require_samples(std::string_view rule, const Graph& graph, int parts);
// The strategies that split the index of this name alone.
std::vector<tdl::AxisStrategy> with_name(const std::vector<tdl::AxisStrategy>& strategies, const std::string& name);
// The strategies that split the op along samples; empty where it sees none.
std::vector<tdl::AxisStrategy> sample_strategies(const Graph& graph, const Op& op,
                                                 const std::vector<tdl::AxisStrategy>& allowed);

// Late sums: a weight with several uses has several contributions to its gradient. On a mesh axis where these come as
// partial sums, the ops between them and the update may add them as they are, so that they are reduced once.
class LateSums {
 public:
  explicit LateSums(const Graph& graph) : graph_(graph), read_by_(readers(graph)) {}
  // The allowed strategies that pass on the partial sums of some operands which nobody else reads. None in the forward
  // pass. None either where the result is larger than these operands and nothing is added to it later: then it is
  // better reduced before. What the parts of a batch add to a result is added to it later, unless its parts are
  // `kept_split`: then each is reduced at once.
  std::vector<tdl::AxisStrategy> strategies(OpId id, const std::vector<tdl::AxisStrategy>& allowed,
                                            bool kept_split = false) const;

 private:
  bool is_added_to(TensorId id) const;

  const Graph& graph_;
  std::vector<std::vector<Reader>> read_by_;
};

// The gradients behind the update of a parameter: the one that it reads, and back through what clips and unscales it to
// what the backward pass leaves. Empty for another op.
std::vector<TensorId> gradients_of_update(const Graph& graph, const Op& op);

}  // namespace partita
